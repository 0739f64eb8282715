// SPDX-License-Identifier: Apache-2.0
// Every planner's plan of a small grid, against tests/golden/signatures/planners.txt: the plan as JSON, without the
// search's seconds, and what it compiles to. PLANLOOM_UPDATE_GOLDEN=1 rewrites the file.
#include "tests/engine/compile/program_signature.h"
#include "tests/engine/compile/random_plans.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>
#include <nlohmann/json.hpp>

using namespace planloom;
using testing::must;

namespace {

std::string hashed(const nlohmann::json &json)
{
    return fmt::format("{:016x}", testing::Hash().text(json.dump()).value());
}

/// "plan=... estimate=... predicted=...": the planner's decision, its estimate, and the simulated result.
std::string signatureOf(const plan::Plan &plan, const plan::Subject &about)
{
    auto json = nlohmann::json::parse(plan::toJson({plan, about}));
    json["planner"].erase("search_seconds");
    json.erase("embedded");
    for (const char *field : {"model", "cluster"})
        json[field].erase("sha256"); // of texts that are not the plan
    const std::string estimate = hashed(json["estimate"]);
    const std::string predicted = hashed({json["predicted"], json.value("why", nlohmann::json())});
    for (const char *field : {"estimate", "predicted", "why"})
        json.erase(field);
    return "plan=" + hashed(json) + " estimate=" + estimate + " predicted=" + predicted;
}

std::vector<std::pair<std::string, import::Model>> models()
{
    std::mt19937 random(7);
    import::Model gpt;
    gpt.graph = testing::tinyGpt(true);
    gpt.source = "gpt";
    import::Model mlp;
    mlp.graph = std::make_shared<const graph::Graph>(must(graph::mlp("mlp", {256, 512, 512, 512, 512, 10})));
    mlp.source = "mlp";
    return {{"gpt", gpt}, {"mlp", mlp}, {"profile", testing::randomModel(random, 7)}};
}

std::vector<std::pair<std::string, cluster::Cluster>> clusters()
{
    testing::ClusterShape mixed = testing::equalNodes(2, 2);
    mixed.types = {0, 1};
    return {{"two-level-2x2", testing::smallCluster(2, 2)},
            {"full-duplex-1x4", testing::made(testing::equalNodes(1, 4))},
            {"mixed-2x2", testing::made(mixed)}};
}

} // namespace

class TestPlanSignatures : public QObject {
    Q_OBJECT

private slots:
    void everyPlanner()
    {
        testing::SignatureList list;
        for (const planners::Planner *planner : planners::allPlanners()) {
            if (planner->name() == "manual") // takes what it is given
                continue;
            for (const auto &[model, imported] : models())
                for (const auto &[name, cluster] : clusters()) {
                    const planners::Problem problem = testing::problemOf(imported, cluster, 16);
                    NoProgress progress;
                    const auto report = planner->plan(problem, {}, progress);
                    const std::string what = planner->name() + "/" + model + "/" + name;
                    if (!report) {
                        list.add(what, "refused");
                        continue;
                    }
                    list.add(what,
                             signatureOf(report->plan, problem.subject) + " "
                                 + testing::signatureOf(report->plan, problem.subject, true, false));
                }
        }
        const std::string difference = list.difference("golden/signatures/planners.txt");
        QVERIFY2(difference.empty(), difference.c_str());
    }
};

QTEST_GUILESS_MAIN(TestPlanSignatures)
#include "tst_plan_signatures.moc"
