// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/training.h"

#include <QTest>

using namespace planloom::plan;
using Kind = LearningRateSchedule::Kind;

class Training : public QObject {
    Q_OBJECT

private slots:
    void kindNamesGoBothWays()
    {
        for (const Kind kind : {Kind::Constant, Kind::Linear, Kind::Cosine})
            QCOMPARE(learningRateKindFromName(name(kind)).value(), kind);
        QVERIFY(!learningRateKindFromName("wavy"));
    }

    // By hand: warm-up of 4 rises by fifths; then T = 12, so a step of the fall is an eighth of it.
    void factorsByHand_data()
    {
        QTest::addColumn<LearningRateSchedule>("schedule");
        QTest::addColumn<qint64>("step");
        QTest::addColumn<double>("factor");
        const LearningRateSchedule constant{Kind::Constant, 4, 0, 0}, linear{Kind::Linear, 4, 12, 0},
            cosine{Kind::Cosine, 4, 12, 0}, low{Kind::Cosine, 0, 0, 0.1};
        QTest::newRow("first") << constant << qint64{0} << 0.2;
        QTest::newRow("last of the warm-up") << linear << qint64{3} << 0.8;
        QTest::newRow("constant") << constant << qint64{4} << 1.0;
        QTest::newRow("constant at the end") << constant << qint64{1000} << 1.0;
        QTest::newRow("linear begins") << linear << qint64{4} << 1.0;
        QTest::newRow("linear quarter") << linear << qint64{6} << 0.75;
        QTest::newRow("linear end") << linear << qint64{12} << 0.0;
        QTest::newRow("cosine begins") << cosine << qint64{4} << 1.0;
        QTest::newRow("cosine quarter") << cosine << qint64{6} << 0.8535533905932737; // (1 + sqrt(1/2)) / 2
        QTest::newRow("cosine half") << cosine << qint64{8} << 0.5;
        QTest::newRow("cosine third") << LearningRateSchedule{Kind::Cosine, 0, 3, 0} << qint64{1}
                                      << 0.75; // (1 + cos 60 deg) / 2
        // PyTorch's SequentialLR of LambdaLR and CosineAnnealingLR(8, eta_min=0.1).
        QTest::newRow("PyTorch, step 5") << LearningRateSchedule{Kind::Cosine, 4, 12, 0.1} << qint64{5}
                                         << 0.9657457896300791;
        QTest::newRow("PyTorch, step 9") << LearningRateSchedule{Kind::Cosine, 4, 12, 0.1} << qint64{9}
                                         << 0.3777924554357097;
        QTest::newRow("after the end") << cosine << qint64{99} << 0.0;
        QTest::newRow("minimum, half of the run's 100 steps") << low << qint64{50} << 0.55;
        QTest::newRow("minimum at the run's end") << low << qint64{100} << 0.1;
    }

    void factorsByHand()
    {
        QFETCH(LearningRateSchedule, schedule);
        QFETCH(qint64, step);
        QFETCH(double, factor);
        QVERIFY2(std::abs(learningRateFactor(schedule, step, 100) - factor) < 1e-15,
                 qPrintable(QString::number(learningRateFactor(schedule, step, 100), 'g', 17)));
    }

    void patterns_data()
    {
        QTest::addColumn<QString>("pattern");
        QTest::addColumn<QString>("text");
        QTest::addColumn<bool>("match");
        QTest::newRow("itself") << "h/0/w"
                                << "h/0/w" << true;
        QTest::newRow("longer") << "h/0/w"
                                << "h/0/wx" << false;
        QTest::newRow("everything") << "*"
                                    << "" << true;
        QTest::newRow("end") << "*.bias"
                             << "h.0.attn.bias" << true;
        QTest::newRow("middle") << "h.*.mlp.*.weight"
                                << "h.11.mlp.c_fc.weight" << true;
        QTest::newRow("backtracks") << "*ab"
                                    << "aabab" << true;
        QTest::newRow("needs more") << "*ab*c"
                                    << "ababab" << false;
        QTest::newRow("no dot magic") << "h.0"
                                      << "hx0" << false;
        QTest::newRow("nothing matches only stars") << ""
                                                    << "a" << false;
    }

    void patterns()
    {
        QFETCH(QString, pattern);
        QFETCH(QString, text);
        QFETCH(bool, match);
        QCOMPARE(matches(std::string_view(pattern.toStdString()), text.toStdString()), match);
    }

    void firstGroupThatMatchesCounts()
    {
        Optimizer optimizer;
        optimizer.weightDecay = 0.1;
        optimizer.groups = {{"head*", 0.3, 2}, {"rank<2", 0, 1}};
        QCOMPARE(settingsOf(optimizer, "head.bias", 1).weightDecay, 0.3);
        QCOMPARE(settingsOf(optimizer, "head.bias", 1).learningRateFactor, 2.0);
        QCOMPARE(settingsOf(optimizer, "ln.weight", 1).weightDecay, 0.0);
        QCOMPARE(settingsOf(optimizer, "w", 2).weightDecay, 0.1);
        QCOMPARE(settingsOf(optimizer, "w", 2).learningRateFactor, 1.0);
    }

    /// A pattern similar to "rank<N" is a name.
    void rankNeedsANumber()
    {
        QVERIFY(!matchesParameter("rank<", "w", 0));
        QVERIFY(!matchesParameter("rank<2x", "w", 0));
        QVERIFY(matchesParameter("rank<2x", "rank<2x", 5));
    }
};

QTEST_GUILESS_MAIN(Training)
#include "tst_training.moc"
