// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/boxing.h"
#include "engine/sharding/oneflow_cost.h"

#include <QTest>

#include <numeric>

using namespace planloom;
using namespace planloom::sharding;

namespace {

NdSbp sbp(const QString &text)
{
    return *fromText(text.toStdString());
}

std::vector<int> numbers(const QString &text)
{
    std::vector<int> result;
    for (const QString &one : text.split(','))
        result.push_back(one.toInt());
    return result;
}

constexpr double kMega = 1048576;
constexpr double kNot = oneflow::kUnsupported;

struct OneDimension {
    const char *from;
    const char *to;
    double paper, paperApart, code, codeApart;
};

/// p = 4; apart: from 4 to 2 other devices. Tensors of 1 MiB.
constexpr OneDimension kOneDimension[] = {
    {"S(0)", "S(0)", 0, 1048576, 0, 1065076},
    {"S(0)", "S(1)", 786432, 1048576, 802932, 1065076},
    {"S(0)", "B", 3145728, 2097152, 3162228, 2113652},
    {"S(0)", "P", 0, 1048576, kNot, kNot},
    {"B", "S(0)", 0, 1048576, 16501, 1065076},
    {"B", "S(1)", 0, 1048576, 16501, 1065076},
    {"B", "B", 0, 2097152, 0, 2113652},
    {"B", "P", 0, 1048576, 33570932, 26230900},
    {"P", "S(0)", 3145728, 4194304, 3162228, 4210804},
    {"P", "S(1)", 3145728, 4194304, 3162228, 4210804},
    {"P", "B", 6291456, 5242880, 6307956, 5259380},
    {"P", "P", 0, 4194304, 0, kNot},
};

struct Route {
    const char *mesh;
    const char *from;
    const char *to;
    double bytes; ///< times the tensor's
    const char *through;
};

constexpr Route kRoutes[] = {
    {"2,4", "S(0),B", "B,B", 4, "B,B"},
    {"2,4", "P,S(0)", "B,S(0)", 2, "B,S(0)"},
    {"2,4", "S(0),P", "S(0),B", 6, "S(0),B"},
    {"2,4", "B,P", "B,B", 12, "B,B"},
    {"2,4", "B,B", "B,B", 0, ""},
    // The outer part lies in pieces as long as the inner dimension splits the same axis.
    {"2,4", "S(0),S(1)", "S(1),S(0)", 2.5, "B,S(1) | B,S(0) | S(1),S(0)"},
    // Gathering the inner dimension first would bring more to each device than is left to it in the end.
    {"2,2", "S(0),S(0)", "B,B", 3, "S(0),B | B,B"},
    {"2,2", "B,S(0)", "S(0),S(0)", 2, "B,B | S(0),B | S(0),S(0)"},
    {"2,2", "B,B", "S(0),S(0)", 0, "S(0),B | S(0),S(0)"},
    {"2,2", "P,P", "S(0),S(1)", 3, "S(0),P | S(0),S(1)"},
    {"2,2,2", "P,S(0),B", "B,S(0),S(1)", 2, "P,S(0),S(1) | B,S(0),S(1)"}, // what is cut before it is added up is less
    {"4", "S(1:16+8)", "S(1:8+16)", 3, "B | S(1:8+16)"},
};

std::string shown(const std::vector<BoxingStep> &steps)
{
    std::string text;
    for (const BoxingStep &step : steps)
        text += (text.empty() ? "" : " | ") + toText(step.result);
    return text;
}

} // namespace

class TestBoxing : public QObject {
    Q_OBJECT

private slots:
    void oneDimension_data()
    {
        QTest::addColumn<int>("at");
        for (std::size_t i = 0; i < std::size(kOneDimension); ++i)
            QTest::addRow("%s to %s", kOneDimension[i].from, kOneDimension[i].to) << static_cast<int>(i);
    }

    void oneDimension()
    {
        QFETCH(int, at);
        const OneDimension &row = kOneDimension[at];
        const NdSbp from = sbp(row.from);
        const NdSbp to = sbp(row.to);
        QCOMPARE(boxingBytes(from[0], to[0], kMega, 4), row.paper);
        QCOMPARE(boxingBytesBetween(from[0], to[0], kMega, 4, 2), row.paperApart);
        QCOMPARE(oneflow::directCost({{512, 512}, kMega, from, to, {4}, {4}, true}), row.code);
        QCOMPARE(oneflow::directCost({{512, 512}, kMega, from, to, {4}, {2}, false}), row.codeApart);
    }

    void routes_data()
    {
        QTest::addColumn<int>("at");
        for (std::size_t i = 0; i < std::size(kRoutes); ++i)
            QTest::addRow("%s: %s to %s", kRoutes[i].mesh, kRoutes[i].from, kRoutes[i].to) << static_cast<int>(i);
    }

    void routes()
    {
        QFETCH(int, at);
        const Route &row = kRoutes[at];
        const auto found = boxingRoute({16, 24}, 4, {numbers(row.mesh)}, sbp(row.from), sbp(row.to));
        QVERIFY2(found.ok(), found.ok() ? "" : found.error().text().c_str());
        double bytes = 0;
        for (const BoxingStep &step : *found)
            bytes += step.bytes;
        QCOMPARE(shown(*found), std::string(row.through));
        QCOMPARE(bytes, row.bytes * 16 * 24 * 4);
    }

    void routesNeedSplitsThatDivide()
    {
        QVERIFY(!boxingRoute({6}, 4, {{4}}, sbp("S(0)"), sbp("B")).ok());
        QVERIFY(!boxingRoute({8}, 4, {{4}}, sbp("B"), sbp("S(1)")).ok());
        QVERIFY(!boxingRoute({8}, 4, {{2, 2}}, sbp("B"), sbp("B")).ok());
    }

    void hierarchiesMerge_data()
    {
        QTest::addColumn<int>("size");
        QTest::addColumn<QString>("hierarchy");
        QTest::addColumn<QString>("layout");
        QTest::addColumn<QString>("reduced");
        QTest::addColumn<QString>("left");
        for (const int size : {4, 5, 7, 8})
            QTest::addRow("%d", size) << size << "2,2" << "S(0),S(0)" << "4" << "S(0)";
        QTest::newRow("6 is split otherwise") << 6 << "2,2" << "S(0),S(0)" << "2,2" << "S(0),S(0)";
        QTest::newRow("ones") << 6 << "1,4,1" << "S(0),P,B" << "4" << "P";
        QTest::newRow("nothing left") << 6 << "1,1" << "S(0),P" << "1" << "B";
        QTest::newRow("B and P merge") << 7 << "2,3,2,2" << "B,B,P,P" << "6,4" << "B,P";
        QTest::newRow("pieces of pieces") << 16 << "2,2,2" << "S(0),S(0),S(0)" << "8" << "S(0)";
        QTest::newRow("pieces of three") << 12 << "2,2,2" << "S(0),S(0),S(0)" << "4,2" << "S(0),S(0)";
    }

    void hierarchiesMerge()
    {
        QFETCH(int, size);
        QFETCH(QString, hierarchy);
        QFETCH(QString, layout);
        QFETCH(QString, reduced);
        QFETCH(QString, left);
        const oneflow::Reduced got = oneflow::reduce({size}, numbers(hierarchy), {sbp(layout)});
        QCOMPARE(got.hierarchy, numbers(reduced));
        QCOMPARE(got.layouts[0], sbp(left));
    }

    /// Only where all layouts allow it.
    void hierarchiesMergeTogether()
    {
        const oneflow::Reduced got = oneflow::reduce({8, 8}, {2, 2}, {sbp("S(0),S(0)"), sbp("S(0),B")});
        QCOMPARE(got.hierarchy, (std::vector<int>{2, 2}));
    }

    void twoDimensions()
    {
        const auto cost = [](const char *from, const char *to) {
            return oneflow::directCost({{64, 64}, kMega, sbp(from), sbp(to), {2, 4}, {2, 4}, true});
        };
        QCOMPARE(cost("S(0),B", "B,B") - oneflow::kTransfer, 4 * kMega);
        QCOMPARE(cost("P,S(0)", "B,S(0)") - oneflow::kTransfer, 2 * kMega);
        QCOMPARE(cost("S(0),P", "S(0),B") - oneflow::kTransfer, 6 * kMega);
        QVERIFY(oneflow::supported(cost("B,P", "B,B")));
        QCOMPARE(cost("B,P", "B,B") - oneflow::kTransfer, 12 * kMega);
        QVERIFY(!oneflow::supported(cost("S(0),S(0)", "S(1),S(0)")));
        QVERIFY(!oneflow::supported(cost("S(0),S(1)", "S(1),S(0)")));
    }

    void oneHierarchyIsExpanded()
    {
        // [8]:B is [2,4]:(B,B): only the inner dimension changes.
        QCOMPARE(oneflow::directCost({{64, 64}, kMega, sbp("B"), sbp("B,S(1)"), {8}, {2, 4}, true}), oneflow::kTransfer + 1);
        // [4]:S(0) of 6 rows is not [2,2]:(S(0),S(0)).
        QVERIFY(!oneflow::supported(oneflow::directCost({{6, 8}, kMega, sbp("S(0)"), sbp("S(0),B"), {4}, {2, 2}, true})));
    }

    void middleLayouts()
    {
        const auto path = [](std::int64_t size) {
            return oneflow::cheapestPath({{size, size}, kMega, sbp("S(0),S(1)"), sbp("S(1),S(0)"), {2, 4}, {2, 4}, true});
        };
        QCOMPARE(path(12).cost, 3 * oneflow::kTransfer + 2.5 * kMega + 1);
        QCOMPARE(path(12).middle, (std::vector<NdSbp>{sbp("B,S(1)"), sbp("B,S(0)")}));
        // Where both dimensions merge, all eight devices exchange at once in the middle.
        QCOMPARE(path(64).cost, 3 * oneflow::kTransfer + (0.75 + 0.875 + 0.75) * kMega);
        QCOMPARE(path(64).middle, (std::vector<NdSbp>{sbp("S(0),S(0)"), sbp("S(1),S(1)")}));
        const oneflow::Path sums = oneflow::cheapestPath({{64, 64}, kMega, sbp("S(0)"), sbp("P"), {4}, {4}, true});
        QCOMPARE(sums.middle, std::vector<NdSbp>{sbp("B")});
    }
};

QTEST_GUILESS_MAIN(TestBoxing)
#include "tst_boxing.moc"
