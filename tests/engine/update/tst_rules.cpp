// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/update/configured_rule.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <set>
#include <string>

using namespace planloom;
using namespace planloom::update;

/// The registry: every rule is well-formed, and what planners and files read of it is right.
class TestRules : public QObject {
    Q_OBJECT

private slots:
    void everyRuleIsWellFormed_data()
    {
        QTest::addColumn<int>("index");
        for (std::size_t i = 0; i < allRules().size(); ++i)
            QTest::newRow(std::string(allRules()[i].name).c_str()) << static_cast<int>(i);
    }

    void everyRuleIsWellFormed()
    {
        QFETCH(int, index);
        const Rule &rule = allRules()[static_cast<std::size_t>(index)];
        QVERIFY(!rule.title.empty() && !rule.about.empty());
        const ConfiguredRule standard(rule);
        QVERIFY2(standard.check().ok(), "a standard setting is out of range");
        std::set<std::string> kinds;
        for (const State &state : rule.states) {
            QVERIFY(kinds.insert(state.kind()).second);
            QVERIFY(state.needs.empty() || rule.setting(state.needs) != nullptr);
        }
        // Each setting in turn at its least and at its largest.
        for (const Setting &setting : rule.settings) {
            QVERIFY(!setting.about.empty());
            for (const double value : {setting.range.least, std::nextafter(setting.range.below, 0.0)}) {
                ConfiguredRule changed(rule);
                QVERIFY(changed.set(setting.name, value).ok());
                const Status good = changed.formula().check();
                QVERIFY2(good.ok(), good ? "" : good.error().text().c_str());
                QCOMPARE(changed.formula().states, static_cast<int>(changed.states().size()));
                QCOMPARE(changed.footprint().states, changed.formula().states);
            }
        }
        const std::string documentation = *readFile(PLANLOOM_SOURCE_DIR "/resources/docs/formats/plan.md");
        QVERIFY2(documentation.find("| `" + std::string(rule.name) + "` |") != std::string::npos,
                 "resources/docs/formats/plan.md does not list the rule");
    }

    /// Counted by hand: a step of AdamW reads weight, gradient and two states, and writes all four.
    void costs_data()
    {
        QTest::addColumn<QString>("rule");
        QTest::addColumn<double>("momentum");
        QTest::addColumn<int>("states");
        QTest::addColumn<int>("streams");
        QTest::newRow("sgd") << "sgd" << 0.0 << 0 << 4;
        QTest::newRow("sgd with momentum") << "sgd" << 0.9 << 1 << 6;
        QTest::newRow("adamw") << "adamw" << 0.0 << 2 << 8;
        QTest::newRow("lion") << "lion" << 0.0 << 1 << 6;
        QTest::newRow("lamb") << "lamb" << 0.0 << 2 << 11; // 4 read, 2 written; 3 read, weight and gradient written
    }

    void costs()
    {
        QFETCH(QString, rule);
        QFETCH(double, momentum);
        ConfiguredRule configured = *ConfiguredRule::named(rule.toStdString());
        if (momentum > 0)
            QVERIFY(configured.set("momentum", momentum).ok());
        QTEST(configured.footprint().states, "states");
        QTEST(configured.footprint().streams, "streams");
    }

    void aNewOptimizerIsAdamW()
    {
        const ConfiguredRule rule;
        QCOMPARE(rule.name(), std::string_view("adamw"));
        QCOMPARE(rule.setting("beta2"), 0.999);
        QVERIFY(rule == *ConfiguredRule::named("adamw"));
        QVERIFY(!(rule == *ConfiguredRule::named("adamw", {{"beta2", 0.95}})));
        QVERIFY(!(rule == *ConfiguredRule::named("sgd")));
    }

    void whatIsNotKnownIsRefused()
    {
        const auto rule = ConfiguredRule::named("adagrad");
        QVERIFY(!rule);
        QVERIFY(rule.error().message.find("\"adagrad\" is not known; there are adamw, ") != std::string::npos);
        const auto setting = ConfiguredRule::named("sgd", {{"beta1", 0.5}});
        QVERIFY(!setting);
        QVERIFY(setting.error().message.find("\"beta1\" is no setting of sgd, which has momentum (")
                != std::string::npos);
        for (const double value : {1.0, -0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
            const Status status = ConfiguredRule::named("sgd", {{"momentum", value}})->check();
            QVERIFY(!status);
            QVERIFY(status.error().message.find("sgd takes one from 0 to below 1") != std::string::npos);
        }
    }

    /// What a rule must not do, said for each.
    void badFormulas_data()
    {
        QTest::addColumn<int>("which");
        QTest::addColumn<QString>("says");
        QTest::newRow("weight not stored") << 0 << "must store the weight";
        QTest::newRow("state not stored") << 1 << "each of its states once";
        QTest::newRow("norm of a norm") << 2 << "norm of what depends on a norm";
        QTest::newRow("weight before the last phase") << 3 << "in its last phase";
        QTest::newRow("state read again") << 4 << "after it has overwritten it";
        QTest::newRow("norm of a scalar") << 5 << "norm of a scalar";
        QTest::newRow("input stored") << 6 << "not computed for each element";
        QTest::newRow("choice among elements") << 7 << "operator of scalars";
        QTest::newRow("unknown state") << 8 << "does not declare";
    }

    void badFormulas()
    {
        QFETCH(int, which);
        QFETCH(QString, says);
        Draft f({}, {"m"});
        const Value g = f.gradient(), w = f.weight(), m = f.state("m");
        const Value stepped = w - f.learningRate() * g;
        const Value scaled = norm(g) * g;
        if (which != 1)
            f.setState("m", which == 6 ? f.weight() : m + g);
        if (which == 2)
            f.setWeight(norm(scaled) * g);
        else if (which == 4)
            f.setWeight(scaled + f.state("m"));
        else if (which == 5)
            f.setWeight(norm(f.learningRate()) * g);
        else if (which == 7)
            f.setWeight(wherePositive(g, scaled, g));
        else if (which == 8)
            f.setWeight(scaled + f.state("v"));
        else if (which != 0)
            f.setWeight(which == 3 ? stepped : scaled);
        const Status status = f.take().check();
        QVERIFY(!status);
        QVERIFY2(QString::fromStdString(status.error().message).contains(says), status.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestRules)
#include "tst_rules.moc"
