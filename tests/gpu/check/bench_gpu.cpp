// SPDX-License-Identifier: Apache-2.0
// Checks a GPU: operators and trainings against the processor, memory, step times, predictions; resources/docs/gpu.md.
//     bench_gpu [-o FILE] [--full] [--time MODEL,BATCH,MICRO-BATCH,PRECISION | --time none]... [--python COMMAND]
//               [--json] [--quiet]
// Exit status: 0 all is right, 1 something is wrong, 2 the options are, 3 there is no GPU.
#include "engine/base/files.h"
#include "executor/device/plugin/library.h"
#include "gpu/check/checks.h"

#include <cstdio>
#include <span>

namespace {

using namespace planloom;

constexpr int kWrong = 1;
constexpr int kBadOptions = 2;
constexpr int kNoGpu = 3;

struct Options {
    std::string out;
    std::string python = "python3";
    std::vector<check::Timed> timed{{"zoo:gpt2", 64, 8, "bf16"}};
    bool full = false;
    bool json = false;
    bool quiet = false;
};

Status addTimed(Options &options, const std::string &text, bool first)
{
    if (first)
        options.timed.clear();
    if (text == "none")
        return {};
    const auto timed = check::timedOf(text);
    if (!timed)
        return timed.error();
    options.timed.push_back(*timed);
    return {};
}

Result<Options> parse(std::span<char *const> arguments)
{
    Options options;
    bool timed = false;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const std::string name = arguments[i];
        if (name == "--full" || name == "--json" || name == "--quiet") {
            (name == "--full" ? options.full : name == "--json" ? options.json : options.quiet) = true;
            continue;
        }
        const bool known = name == "-o" || name == "--time" || name == "--python";
        if (!known || i + 1 == arguments.size())
            return badInput(known ? name + " needs a value" : "there is no option " + name);
        const std::string value = arguments[++i];
        if (name == "--time") {
            if (const Status added = addTimed(options, value, !std::exchange(timed, true)); !added)
                return added.error();
        } else {
            (name == "-o" ? options.out : options.python) = value;
        }
    }
    return options;
}

int refuse(const Error &error, int status)
{
    std::fprintf(stderr, "planloom: error: %s\n", error.text().c_str());
    return status;
}

/// Error: what the operating system says of the GPU, or the driver.
Result<check::Report> checkGpu(const Options &options, const check::Say &say)
{
    check::Report report;
    {
        const auto gpu = device::openCudaDevice(0);
        if (!gpu)
            return gpu.error();
        report.device = (*gpu)->name();
        report.operators = check::checkOperators(**gpu, say);
        report.models = check::checkModels(**gpu, options.full, say);
    }
    const auto peer = options.timed.empty() ? Result<std::string>(notFound("no PyTorch: nothing is timed"))
                                            : check::peerOf(options.python);
    report.peer = peer ? *peer : peer.error().message;
    for (const check::Timed &timed : options.timed)
        report.steps.push_back(check::timeSteps(0, timed, peer ? options.python : "", say));
    return report;
}

} // namespace

int main(int argc, char **argv)
{
    const auto options = parse({argv, static_cast<std::size_t>(argc)});
    if (!options)
        return refuse(options.error(), kBadOptions);
    const auto report = checkGpu(*options, [&](const std::string &what) {
        if (!options->quiet)
            std::fprintf(stderr, "checking %s\n", what.c_str());
    });
    if (!report)
        return refuse(notFound("no GPU to check: " + report.error().text()), kNoGpu);
    const std::string json = check::toJson(*report);
    if (options->json)
        std::fputs(json.c_str(), stdout);
    else if (!options->quiet)
        std::fputs(check::toText(*report).c_str(), stdout);
    if (!options->out.empty()) {
        if (const Status written = writeFileAtomically(options->out, json); !written)
            return refuse(written.error(), kWrong);
    }
    return report->passed() ? 0 : kWrong;
}
