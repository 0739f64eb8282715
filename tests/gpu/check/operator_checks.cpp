// SPDX-License-Identifier: Apache-2.0
#include "gpu/check/checks.h"
#include "gpu/made_operators.h"
#include "gpu/operator_parity.h"

namespace planloom::check {

std::vector<OperatorRow> checkOperators(device::PluginDevice &gpu, const Say &say)
{
    test::OperatorParity parity(gpu);
    std::map<std::string, std::string> wrong; // by the type of the case
    const auto note = [&](const std::string &type, const std::string &problem) {
        if (!problem.empty() && wrong[type].empty())
            wrong[type] = problem;
    };
    say("operators and their gradients");
    for (const cases::Case &c : cases::allCases())
        note(c.type, parity.compareTrained(c));
    for (const cases::Case &c : cases::forwardOnlyCases())
        note(c.type, parity.compareForward(c));
    for (const cases::Case &c : cases::imageCases())
        note(c.type, parity.compareLastChannels(c));
    say("operators as they are fused and sharded for training");
    for (const auto &family :
         {test::MadeOperators::ofShards(), test::MadeOperators::ofIndices(), test::MadeOperators::ofImages(),
          test::MadeOperators::ofAttention(), test::MadeOperators::ofUnevenPadding()})
        for (const test::MadeOperator &made : family)
            note(made.op.type.name(),
                 parity.compareOperator(made.op, made.inputs, made.outputs, made.values, made.tolerance));
    for (const test::MadeOperator &made : test::MadeOperators::ofUnalignedRows(1024, 1029)) // many enough for pieces
        note(made.op.type.name(),
             parity.compareOperator(made.op, made.inputs, made.outputs, made.values, made.tolerance));
    for (const bool decoder : {false, true})
        for (const bool half : {false, true})
            note(decoder ? "(fused LLaMA)" : "(fused GPT)", parity.compareFused(decoder, half));
    std::vector<OperatorRow> rows;
    for (const auto &[type, seen] : parity.seen()) {
        rows.push_back({type, seen.onDevice, seen.onHost, seen.worst, wrong[type]});
        wrong.erase(type);
    }
    for (const auto &[type, problem] : wrong)
        rows.push_back({type, 0, 0, 0, problem});
    return rows;
}

} // namespace planloom::check
