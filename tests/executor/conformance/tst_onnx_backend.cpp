// SPDX-License-Identifier: Apache-2.0
#include "executor/conformance/backend_case.h"

#include <QtTest/QTest>

#include <cstdio>
#include <set>

using namespace planloom;
using namespace planloom::conformance;

namespace {

fs::path dataFolder()
{
    const char *given = std::getenv("PLANLOOM_ONNX_TESTDATA");
    return given ? given : "/usr/share/libonnx-testdata/data";
}

struct Count {
    int ran = 0, passed = 0, outOfScope = 0;
};

} // namespace

/// ONNX's own backend tests (Debian package libonnx-testdata). A failure of a claimed operator is a failure here; what
/// is out of scope is counted by reason in the table at the end.
class OnnxBackend : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        if (!fs::is_directory(dataFolder() / "node"))
            return;
        m_cases = casesBeneath(dataFolder());
        QVERIFY2(m_cases.size() > 900, "the data is incomplete; install libonnx-testdata again");
    }

    void claimedOperatorsConform_data()
    {
        QTest::addColumn<int>("at");
        for (std::size_t i = 0; i < m_cases.size(); ++i)
            if (m_cases[i].outOfScope.empty())
                QTest::addRow("%s", m_cases[i].name.c_str()) << static_cast<int>(i);
        if (m_cases.empty())
            QTest::newRow("skipped: libonnx-testdata is not installed") << -1;
    }

    void claimedOperatorsConform()
    {
        QFETCH(int, at);
        if (at < 0)
            return;
        const BackendCase &one = m_cases[static_cast<std::size_t>(at)];
        const std::string problem = problemWith(one);
        m_passed[one.name] = problem.empty();
        QVERIFY2(problem.empty(), problem.c_str());
    }

    /// Every claim is in the documentation, and nothing else is.
    void documentationNamesTheClaims()
    {
        const std::string whole = bytesOf(fs::path(PLANLOOM_SOURCE_DIR) / "resources/docs/formats/onnx.md");
        const std::size_t table = whole.find("| operator | notes |");
        QVERIFY(table != std::string::npos);
        const std::string page = whole.substr(table, whole.find("\n\n", table) - table) + "\n";
        std::set<std::string> claimed, documented;
        for (const import::ClaimedOperator &claim : import::claimedOperators())
            claimed.insert(std::string("| ") + claim.type + " | " + claim.notes + " |");
        for (std::size_t at = page.find("\n| "); at != std::string::npos; at = page.find("\n| ", at + 1))
            documented.insert(page.substr(at + 1, page.find('\n', at + 1) - at - 1));
        for (const std::string &line : claimed)
            QVERIFY2(documented.count(line) == 1, line.c_str());
        for (const std::string &line : documented)
            QVERIFY2(claimed.count(line) == 1, line.c_str());
    }

    void claimsAreFoundByName()
    {
        for (const import::ClaimedOperator &claim : import::claimedOperators())
            QVERIFY2(import::findClaim(claim.type) == &claim, claim.type);
        QVERIFY(!import::findClaim("Loop"));
        QVERIFY(!import::findClaim(""));
    }

    void cleanupTestCase()
    {
        if (m_cases.empty()) {
            std::puts("ONNX backend tests: skipped, libonnx-testdata is not installed");
            return;
        }
        printOperators();
        printTotals();
    }

private:
    /// One line a claimed operator: the tests that use it.
    void printOperators() const
    {
        std::map<std::string, Count> counts;
        for (const import::ClaimedOperator &claim : import::claimedOperators())
            counts[claim.type];
        for (const BackendCase &one : m_cases)
            for (const std::string &type : one.outline.operators) {
                const auto found = counts.find(type);
                if (found == counts.end())
                    continue;
                const auto passed = m_passed.find(one.name);
                found->second.outOfScope += one.outOfScope.empty() ? 0 : 1;
                found->second.ran += passed != m_passed.end() ? 1 : 0;
                found->second.passed += passed != m_passed.end() && passed->second ? 1 : 0;
            }
        std::puts("claimed operator            ran  passed  out of scope");
        for (const auto &[type, count] : counts)
            std::printf("%-26s %4d  %6d  %12d\n", type.c_str(), count.ran, count.passed, count.outOfScope);
    }

    void printTotals() const
    {
        std::map<std::string, int> reasons;
        std::map<std::string, int> unclaimed;
        int passed = 0;
        for (const BackendCase &one : m_cases) {
            if (!one.outOfScope.empty())
                ++reasons[one.outOfScope];
            if (one.outOfScope == "operator not claimed")
                for (const std::string &type : one.outline.operators)
                    if (!import::findClaim(type))
                        ++unclaimed[type];
        }
        for (const auto &[name, good] : m_passed)
            passed += good ? 1 : 0;
        std::printf("\n%zu tests: %zu ran, %d passed, %zu failed, %zu out of scope\n", m_cases.size(), m_passed.size(),
                    passed, m_passed.size() - static_cast<std::size_t>(passed), m_cases.size() - m_passed.size());
        for (const auto &[reason, count] : reasons)
            std::printf("  out of scope %4d  %s\n", count, reason.c_str());
        std::printf("operators not claimed:");
        for (const auto &[type, count] : unclaimed)
            std::printf(" %s(%d)", type.c_str(), count);
        std::puts("");
    }

    std::vector<BackendCase> m_cases;
    std::map<std::string, bool> m_passed;
};

QTEST_GUILESS_MAIN(OnnxBackend)
#include "tst_onnx_backend.moc"
