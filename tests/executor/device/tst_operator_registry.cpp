// SPDX-License-Identifier: Apache-2.0
// Walks the registry of operators where every floor that knows of operators is linked: a row that one of them lacks
// fails here, before a model does.
#include "engine/graph/operators/operators.h"

#include "engine/sharding/signature_rules.h"
#include "executor/device/kernel.h"

#include <QtTest/QTest>

#include <set>
#include <string_view>

using namespace planloom;
using graph::CostClass;
using graph::Gradient;
using graph::Operator;
using graph::Origin;
using graph::Storage;

namespace {

bool onlyHas(std::string_view letters, std::string_view allowed)
{
    return !letters.empty() && letters.find_first_not_of(allowed) == std::string_view::npos;
}

} // namespace

class OperatorRegistry : public QObject {
    Q_OBJECT
private slots:
    void row_data()
    {
        QTest::addColumn<std::size_t>("index");
        for (const Operator &row : graph::operators())
            QTest::newRow(row.type) << row.index;
    }

    void row()
    {
        QFETCH(std::size_t, index);
        const Operator &row = graph::operators()[index];
        QCOMPARE(graph::findOperator(row.type), &row); // no type stands twice
        verifySchema(row);
        verifyGradient(row);
        verifyTraits(row);
        QVERIFY2(sharding::hasSignatures(row.type),
                 "no sharding signatures: a row in engine/sharding/signatures_*.cpp; {TYPE, nullptr} for all-B only");
        verifyKernel(row);
    }

    /// Whatever has a kernel is in the registry; makeKernel's tables refuse others when they are made.
    void kernelsAreOfTheRegistry()
    {
        for (const std::string &type : device::kernelTypes())
            QVERIFY2(graph::findOperator(type) != nullptr, type.c_str());
    }

private:
    static void verifySchema(const Operator &row)
    {
        QVERIFY2(row.inputs.least >= 0 && (row.inputs.most < 0 || row.inputs.most >= row.inputs.least),
                 "the number of inputs is no range");
        QVERIFY2(row.flops != nullptr, "no FLOPs: noFlops if there are none");
        QVERIFY2(row.infer != nullptr || row.traits.planOnly,
                 "no shape inference, which only what is never run may lack");
    }

    static void verifyGradient(const Operator &row)
    {
        const bool decided = row.gradient.flow != Gradient::Flow::Unset;
        if (row.traits.origin == Origin::Model)
            QVERIFY2(decided, "no gradient: gradientBy(...), kNoGradient or kRefused");
        else
            QVERIFY2(!decided, "made by differentiation or a rewrite, but it has a gradient");
        QCOMPARE(row.gradient.backward != nullptr, row.gradient.flow == Gradient::Flow::Flows);
        QVERIFY2(row.backwardFlops > 0 || row.backwardFlops == graph::kEachFactor, "backwardFlops is out of range");
    }

    static void verifyTraits(const Operator &row)
    {
        const graph::OpTraits &traits = row.traits;
        QVERIFY2(traits.cost != CostClass::Unset, "no cost class");
        QCOMPARE(traits.cost == CostClass::View, traits.storage == Storage::View);
        QCOMPARE(traits.cost == CostClass::Communication, traits.communicates());
        QVERIFY2(onlyHas(traits.precision.inputs, "hf-=+") && onlyHas(traits.precision.outputs, "hf=+"),
                 "a letter of `precision` is unknown");
        if (traits.accumulates)
            QCOMPARE(traits.precision.outputs[0], 'f');
        if (traits.linear != graph::Linear::No)
            QVERIFY2(traits.elementWise != graph::ElementWise::No, "linearity is read of element-wise operators only");
    }

    void verifyKernel(const Operator &row) const
    {
        const bool none = row.traits.planOnly || row.traits.communicates();
        QVERIFY2(m_kernels.contains(row.type) != none,
                 none ? "has a kernel, but its traits say that it is not computed"
                      : "no kernel: an entry in executor/device/cpu/kernels, or `planOnly`");
    }

    const std::set<std::string> m_kernels = [] {
        const std::vector<std::string> types = device::kernelTypes();
        return std::set<std::string>(types.begin(), types.end());
    }();
};

QTEST_GUILESS_MAIN(OperatorRegistry)
#include "tst_operator_registry.moc"
