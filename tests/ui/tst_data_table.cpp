// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include "ui/theme/theme.h"
#include "ui/widgets/data_table.h"

#include <QApplication>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>

#include <algorithm>

using namespace planloom::ui;

class TestDataTable : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, ThemeKind::Light); }
    void rowsAreMadeWhenLookedAt();
    void filterLooksIntoAllCells();
    void longTextsAreShownInPart();
    void headersStandAboveTheirCells();
    void whatIsTypedStays();
};

void TestDataTable::rowsAreMadeWhenLookedAt()
{
    constexpr int kRows = 50'000;
    std::vector<int> made(kRows, 0);
    TableData data{{QStringLiteral("Row"), QStringLiteral("Square")}, {}};
    data.rows.resize(kRows);
    data.makeRow = [&made](std::size_t row) {
        ++made[row];
        const auto number = static_cast<double>(row);
        return std::vector<Cell>{{QString::number(row), number}, {QString::number(number * number), number * number}};
    };
    DataTable table;
    table.resize(300, 400);
    table.show();
    table.set(std::move(data));
    QCoreApplication::processEvents();
    QCOMPARE(table.tableModel()->rowCount(), kRows);
    QVERIFY(made.front() == 1 && made.back() == 0);
    QVERIFY(std::ranges::count(made, 1) < 1000);
    QCOMPARE(table.tableModel()->row(kRows - 1)[0].text, QStringLiteral("49999"));
    table.sortByColumn(1, Qt::DescendingOrder);
    QCOMPARE(table.sourceRow(table.model()->index(0, 0)), kRows - 1);
    QCOMPARE(std::ranges::count(made, 1), std::ptrdiff_t{kRows});
}

void TestDataTable::headersStandAboveTheirCells()
{
    DataTable table;
    table.set({{QStringLiteral("Name"), QStringLiteral("Figure")},
               {{{QStringLiteral("x"), {}}, {QStringLiteral("1"), 1.0}}}});
    const auto alignment = [&table](int section) {
        return Qt::Alignment(table.model()->headerData(section, Qt::Horizontal, Qt::TextAlignmentRole).toInt());
    };
    QVERIFY(alignment(0).testFlag(Qt::AlignLeft));
    QVERIFY(alignment(1).testFlag(Qt::AlignRight));
}

void TestDataTable::filterLooksIntoAllCells()
{
    Cell warned{QStringLiteral("n1:G7"), {}};
    warned.warn = true;
    DataTable table;
    table.set({{QStringLiteral("A"), QStringLiteral("B")},
               {{{QStringLiteral("n0:g7"), {}}, {QStringLiteral("x"), {}}},
                {{QStringLiteral("y"), {}}, warned},
                {{QStringLiteral("n2"), {}}, {QStringLiteral("7"), 7.0}}}});
    const auto shown = [&table](const QString &text) {
        table.setFilter(text);
        QList<int> rows;
        for (int row = 0; row < table.model()->rowCount(); ++row)
            rows << table.sourceRow(table.model()->index(row, 0));
        return rows;
    };
    QCOMPARE(shown(QStringLiteral("g7")), (QList<int>{0, 1}));
    QCOMPARE(shown(QStringLiteral("7")), (QList<int>{0, 1, 2}));
    QCOMPARE(shown(QStringLiteral("! n")), (QList<int>{1}));
    QCOMPARE(shown(QStringLiteral(".")), (QList<int>{}));
    QCOMPARE(shown(QString()), (QList<int>{0, 1, 2}));
}

void TestDataTable::longTextsAreShownInPart()
{
    const QString devices = QStringLiteral("n0:g0-7, ").repeated(1000);
    DataTable table;
    table.set({{QStringLiteral("Devices")}, {{{devices, {}}}}});
    const QModelIndex cell = table.model()->index(0, 0);
    const QString shown = cell.data(Qt::DisplayRole).toString();
    QVERIFY(shown.size() < 500 && shown.endsWith(QStringLiteral("…")) && devices.startsWith(shown.chopped(1)));
    QCOMPARE(cell.data(Qt::EditRole).toString(), devices);
}

/// The table gets other values while a cell is edited: one that was typed into keeps its text, another shows the value.
void TestDataTable::whatIsTypedStays()
{
    DataTable table;
    table.resize(400, 200);
    const auto values = [](const QString &first, const QString &second) {
        TableData data{{QStringLiteral("Parts")}, {}};
        for (const QString &text : {first, second}) {
            Cell cell{text, 0};
            cell.editable = true;
            data.rows.push_back({cell});
        }
        return data;
    };
    table.set(values(QStringLiteral("1"), QStringLiteral("1")));
    table.show();
    QVERIFY(QTest::qWaitForWindowExposed(&table));
    QSignalSpy edits(table.tableModel(), &TableModel::edited);
    const auto editorOf = [&table](int row) {
        table.setCurrentIndex(table.model()->index(row, 0));
        table.edit(table.currentIndex());
        return table.viewport()->findChild<QLineEdit *>();
    };
    QLineEdit *editor = editorOf(0);
    QVERIFY(editor);
    table.set(values(QStringLiteral("2"), QStringLiteral("1"))); // nothing was typed
    QCOMPARE(editor->text(), QStringLiteral("2"));
    editor->selectAll();
    QTest::keyClicks(editor, QStringLiteral("4"));
    table.set(values(QStringLiteral("3"), QStringLiteral("1")));
    QCOMPARE(editor->text(), QStringLiteral("4"));
    QTest::keyClick(editor, Qt::Key_Return);
    table.set(values(QStringLiteral("5"), QStringLiteral("1"))); // before the table takes it over
    QTRY_COMPARE(edits.size(), 1);
    QCOMPARE(edits[0][0].toInt(), 0);
    QCOMPARE(edits[0][2].toString(), QStringLiteral("4"));
}

PLANLOOM_UI_MAIN(TestDataTable)
#include "tst_data_table.moc"
