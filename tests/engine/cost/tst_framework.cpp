// SPDX-License-Identifier: Apache-2.0
// Frameworks as named sets of facts.
#include "engine/cost/framework.h"

#include <QTest>

#include <set>

using namespace planloom;

class TestFramework : public QObject {
    Q_OBJECT

private slots:
    void eachIsFoundByItsName()
    {
        std::set<std::string> names;
        for (const cost::Framework &framework : cost::frameworks()) {
            QVERIFY(names.insert(framework.name).second);
            const auto found = cost::findFramework(framework.name);
            QVERIFY(found.ok());
            QCOMPARE(*found, &framework);
        }
        QVERIFY(names.size() >= 5);
        const auto other = cost::findFramework("megatron");
        QVERIFY(!other);
        QVERIFY(other.error().message.find("megatron-2021") != std::string::npos);
    }

    /// Figures that were measured on the machine stay; of float16 alone gradients are halved.
    void ownFiguresStay()
    {
        const cost::Framework &framework = **cost::findFramework("megatron-2021");
        auto profile = std::make_shared<cost::Profile>();
        profile->source = "measured";
        profile->extra = {{"kernel_launch_seconds", 1e-6}};
        const auto made = cost::withFacts(profile, framework, false);
        QCOMPARE(made->extra.at("kernel_launch_seconds"), 1e-6);
        QCOMPARE(made->extra.at(cost::kBlockingTransfers), 1.0);
        QCOMPARE(made->source, std::string("measured; framework megatron-2021"));
        QVERIFY(!made->extra.contains("gradient_share"));
        QCOMPARE(cost::withFacts(nullptr, framework, true)->extra.at("gradient_share"), 0.5);
        QVERIFY(profile->extra.size() == 1);
    }
};

QTEST_GUILESS_MAIN(TestFramework)
#include "tst_framework.moc"
