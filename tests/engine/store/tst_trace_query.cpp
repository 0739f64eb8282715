// SPDX-License-Identifier: Apache-2.0
#include "engine/store/trace_query.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::store;

/// SELECTs over traces.
class TestTraceQuery : public QObject {
    Q_OBJECT

    /// Two devices; forward passes of 2 and 3 ms, one all-reduce without a stage.
    static trace::Trace made()
    {
        trace::Trace trace;
        trace.lanes = {{"compute", trace::Work::Compute, 1}, {"collective", trace::Work::Communication, 1}};
        trace.kinds = trace::standardKinds();
        trace.ranks = {{"n0:g0"}, {"n0:g1"}};
        trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0, -1}, {"AR", trace::Kind::AllReduce, -1, -1, 0}};
        trace.records = {{0, 2'000'000, 0, 0, 0, 0}, {2'000'000, 500'000, 1, 0, 0, 1}, {0, 3'000'000, 0, 1, 1, 0}};
        return trace;
    }
    static Result<QueryTable> ask(const std::string &sql)
    {
        NoProgress none;
        return queryTrace(made(), sql, none);
    }
    /// Cells with blanks, rows with commas between.
    static QString text(const QueryTable &table)
    {
        QStringList rows;
        for (const auto &row : table.rows) {
            QStringList cells;
            for (const QueryTable::Cell &cell : row) {
                if (const auto *number = std::get_if<std::int64_t>(&cell))
                    cells << QString::number(*number);
                else if (const auto *real = std::get_if<double>(&cell))
                    cells << QString::number(*real);
                else if (const auto *string = std::get_if<std::string>(&cell))
                    cells << QString::fromStdString(*string);
                else
                    cells << "null";
            }
            rows << cells.join(' ');
        }
        return rows.join(", ");
    }

private Q_SLOTS:
    void answers_data()
    {
        QTest::addColumn<QByteArray>("sql");
        QTest::addColumn<QString>("answer");
        const auto row = [](const char *sql, const char *answer) {
            QTest::newRow(sql) << QByteArray(sql) << QString(answer);
        };
        row("SELECT device, sum(duration) FROM slices WHERE kind='forward' GROUP BY device ORDER BY 1",
            "n0:g0 0.002, n0:g1 0.003");
        row("SELECT task, stage, micro_batch, lane, step, start FROM slices WHERE work='communication'",
            "AR null null collective 0 0.002");
        row("SELECT count(*) FROM tasks", "2");
        row("SELECT device FROM devices ORDER BY rank DESC;", "n0:g1, n0:g0");
        row("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<3) SELECT i FROM n", "1, 2, 3");
        row("SELECT task FROM slices WHERE duration > 1", "");
    }
    void answers()
    {
        QFETCH(QByteArray, sql);
        QFETCH(QString, answer);
        const auto table = ask(sql.toStdString());
        QVERIFY2(table, table ? "" : table.error().message.c_str());
        QCOMPARE(text(*table), answer);
    }

    void refused_data()
    {
        QTest::addColumn<QByteArray>("sql");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *sql, const char *says) {
            QTest::newRow(*sql ? sql : "empty") << QByteArray(sql) << QString(says);
        };
        row("", "is empty");
        row("SELECT price FROM slices", "no such column: price; the tables are slices");
        row("SELECT 1; SELECT 2", "more than one statement");
        row("DELETE FROM records", "may only read");
        row("CREATE TABLE a(b)", "may only read");
        row("PRAGMA user_version", "may only read");
        row("VACUUM", "may only read");
    }
    void refused()
    {
        QFETCH(QByteArray, sql);
        QFETCH(QString, says);
        const auto table = ask(sql.toStdString());
        QVERIFY(!table);
        QVERIFY2(QString::fromStdString(table.error().message).contains(says), table.error().message.c_str());
    }

    void noFileIsTouched()
    {
        const QTemporaryDir folder;
        const QString file = folder.filePath("other.db");
        QVERIFY(!ask("ATTACH '" + file.toStdString() + "' AS other"));
        QVERIFY(!ask("SELECT writefile('" + file.toStdString() + "', 'x')"));
        QVERIFY(!ask("SELECT load_extension('" + file.toStdString() + "')"));
        QVERIFY(!QFile::exists(file));
    }

    void endsWhenAsked()
    {
        struct Stop final : Progress {
            void report(double, std::string_view) override { ++calls; }
            [[nodiscard]] bool stopped() const override { return calls > 1; }
            int calls = 0;
        } stop;
        stop.calls = 2;
        const auto before = queryTrace(made(), "SELECT 1", stop);
        QVERIFY(!before && before.error().code == ErrorCode::Cancelled);
        struct Late final : Progress {
            void report(double, std::string_view) override {}
            [[nodiscard]] bool stopped() const override { return ++looks > 2; }
            mutable int looks = 0;
        } late;
        const auto endless =
            queryTrace(made(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n",
                       late);
        QVERIFY(!endless && endless.error().code == ErrorCode::Cancelled);
    }
};

QTEST_GUILESS_MAIN(TestTraceQuery)
#include "tst_trace_query.moc"
