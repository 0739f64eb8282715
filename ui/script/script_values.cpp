// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script_values.h"

#include "engine/base/json_reader.h"
#include "engine/plan/admm_training_json.h"
#include "planners/registry.h"
#include "ui/widgets/text.h"

#include <QRegularExpression>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

using Json = nlohmann::json;

const QString kSetPrefix = QStringLiteral("set.");

/// A setting of training that is a number, by its key in scripts, which is the option of `planloom train`.
struct NumberKey {
    const char *name;
    std::int64_t run::Settings::*whole;
    double run::Settings::*real;
};

constexpr NumberKey kNumberKeys[] = {
    {"steps", &run::Settings::steps, nullptr},
    {"seed", &run::Settings::seed, nullptr},
    {"holdout", nullptr, &run::Settings::holdout},
    {"threads", &run::Settings::threads, nullptr},
    {"timeout", nullptr, &run::Settings::timeoutSeconds},
    {"checkpoint-every", &run::Settings::checkpointEvery, nullptr},
    {"keep", &run::Settings::keep, nullptr},
    {"restarts", &run::Settings::restarts, nullptr},
    {"validate-every", &run::Settings::validateEvery, nullptr},
    {"early-stop", &run::Settings::earlyStop, nullptr},
    {"trace", &run::Settings::traceEvery, nullptr},
    {"kernel-seconds", nullptr, &run::Settings::kernelSeconds},
    {"paced", &run::Settings::paced, nullptr},
    {"hung", nullptr, &run::Settings::hungSeconds},
};

Error wrongValue(const QString &key, const QString &value, const QString &fix)
{
    return badInput(QStringLiteral("%1=%2: %3").arg(key, value, fix).toStdString());
}

QString pairText(const QString &key, const QString &value) { return key + QLatin1Char('=') + value; }

QString exchangeText(const planners::ExchangeRequest &request)
{
    QString text = qt(plan::textOf(request.exchange));
    const auto toAuto = [&](const char *key) {
        text.replace(QRegularExpression(QStringLiteral("\\b%1=[^,]*").arg(QLatin1String(key))),
                     QStringLiteral("%1=auto").arg(QLatin1String(key)));
    };
    if (request.findsDelay)
        toAuto("delay");
    if (request.findsAcrossSteps)
        toAuto("across_steps");
    return text;
}

Json optimizerJson(const plan::Optimizer &optimizer) { return plan::optimizerToJson(optimizer); }

Result<std::int64_t> wholeNumber(const QString &key, const QString &value, std::int64_t least)
{
    bool isNumber = false;
    const qint64 number = value.toLongLong(&isNumber);
    if (!isNumber || number < least)
        return wrongValue(key, value, QStringLiteral("give a whole number, %1 or more").arg(least));
    return static_cast<std::int64_t>(number);
}

/// One pair of `find-plan`. Error: BadInput.
Status setSearch(Search &search, const QString &key, const QString &value)
{
    PlanRequest &request = search.request;
    if (key.startsWith(kSetPrefix)) {
        request.options[key.mid(kSetPrefix.size()).toStdString()] = value.toStdString();
    } else if (key == QLatin1String("batch") || key == QLatin1String("micro-batch")) {
        const auto number = wholeNumber(key, value, 1);
        if (!number)
            return number.error();
        if (key == QLatin1String("batch"))
            request.globalBatch = *number;
        else
            request.microBatch = *number;
    } else if (key == QLatin1String("zero")) {
        const auto level = wholeNumber(key, value, 0);
        if (!level || *level > 3)
            return wrongValue(key, value, QStringLiteral("give 0, 1, 2 or 3"));
        request.zero = static_cast<int>(*level);
    } else if (key == QLatin1String("precision")) {
        const auto precision = plan::precisionFromName(value.toStdString());
        if (!precision)
            return wrongValue(key, value, QStringLiteral("give fp32 or bf16"));
        request.precision = *precision;
    } else if (key == QLatin1String("exchange")) {
        auto exchange = planners::exchangeRequest(value.toStdString());
        if (!exchange)
            return exchange.error();
        request.exchange = *exchange;
    } else if (key == QLatin1String("optimizer")) {
        const Json object = Json::parse(value.toStdString(), nullptr, false);
        if (!object.is_object())
            return wrongValue(key, value, QStringLiteral("give an object of JSON, as plan files have it"));
        JsonReader reader(object);
        request.optimizer = plan::optimizerFrom(reader);
        return reader.failure();
    } else if (key == QLatin1String("graph")) {
        request.graph = value;
    } else if (key == QLatin1String("model")) {
        search.model = value;
    } else if (key == QLatin1String("cluster")) {
        search.cluster = value;
    } else if (key == QLatin1String("loss")) {
        search.loss.push_back(value.toStdString());
    } else {
        return wrongValue(key, value,
                          QStringLiteral(
                              "find-plan has the keys batch, micro-batch, precision, zero, exchange, optimizer, "
                              "graph, model, cluster, loss and set.OPTION"));
    }
    return {};
}

/// The plan's own part of @p document: neither its model and cluster nor what was computed from it.
Json ownPart(Json whole)
{
    for (const char *key : {"embedded", "predicted", "why", "estimate", "model", "cluster", "schema"})
        whole.erase(key);
    if (whole.contains("planner"))
        whole["planner"].erase("search_seconds");
    return whole;
}

} // namespace

Result<ViewFields> pairsOf(const QStringList &words)
{
    ViewFields fields;
    for (const QString &word : words) {
        const qsizetype equals = word.indexOf(QLatin1Char('='));
        if (equals <= 0)
            return badInput(QStringLiteral("%1 is not KEY=VALUE; write it so, without blanks or in quotation marks")
                                .arg(word)
                                .toStdString());
        fields.emplace_back(word.left(equals), word.mid(equals + 1));
    }
    return fields;
}

QStringList searchWords(const Search &search)
{
    const PlanRequest &request = search.request;
    QStringList words{qt(request.planner), pairText(QStringLiteral("batch"), QString::number(request.globalBatch))};
    if (request.microBatch)
        words << pairText(QStringLiteral("micro-batch"), QString::number(*request.microBatch));
    if (request.precision != plan::Precision::Float32)
        words << pairText(QStringLiteral("precision"), QString::fromLatin1(plan::name(request.precision)));
    if (request.zero != 0)
        words << pairText(QStringLiteral("zero"), QString::number(request.zero));
    if (request.exchange)
        words << pairText(QStringLiteral("exchange"), exchangeText(*request.exchange));
    if (const Json optimizer = optimizerJson(request.optimizer); optimizer != optimizerJson({}))
        words << pairText(QStringLiteral("optimizer"), qt(optimizer.dump()));
    if (!request.graph.isEmpty())
        words << pairText(QStringLiteral("graph"), request.graph);
    if (!search.model.isEmpty())
        words << pairText(QStringLiteral("model"), search.model);
    if (!search.cluster.isEmpty())
        words << pairText(QStringLiteral("cluster"), search.cluster);
    for (const std::string &loss : search.loss)
        words << pairText(QStringLiteral("loss"), qt(loss));
    for (const auto &[key, value] : request.options)
        words << pairText(kSetPrefix + qt(key), qt(value));
    return words;
}

Result<Search> searchFromWords(const QStringList &words)
{
    Search search;
    search.request.planner = words.front().toStdString();
    if (const auto planner = planners::findPlanner(search.request.planner); !planner)
        return planner.error();
    const auto pairs = pairsOf(words.mid(1));
    if (!pairs)
        return pairs.error();
    for (const auto &[key, value] : *pairs)
        if (const Status status = setSearch(search, key, value); !status)
            return status.error();
    return search;
}

QStringList trainingWords(const run::Settings &settings)
{
    QStringList words{pairText(QStringLiteral("data"), qt(settings.data))};
    const run::Settings usual;
    for (const NumberKey &key : kNumberKeys) {
        const QString name = QString::fromLatin1(key.name);
        const bool isSteps = key.whole == &run::Settings::steps;
        if (key.whole && (isSteps || settings.*key.whole != usual.*key.whole))
            words << pairText(name, QString::number(settings.*key.whole));
        else if (key.real && settings.*key.real != usual.*key.real)
            words << pairText(name, QString::number(settings.*key.real, 'g', 17));
    }
    return words;
}

Result<agent::TrainRequest> trainingFromWords(const QStringList &words)
{
    const auto pairs = pairsOf(words);
    if (!pairs)
        return pairs.error();
    agent::TrainRequest request;
    for (const auto &[key, value] : *pairs) {
        const auto known =
            std::find_if(std::begin(kNumberKeys), std::end(kNumberKeys),
                         [&, name = key](const NumberKey &each) { return name == QLatin1String(each.name); });
        if (key == QLatin1String("data")) {
            request.settings.data = value.toStdString();
        } else if (key == QLatin1String("run")) {
            request.runDir = value.toStdString();
        } else if (known == std::end(kNumberKeys)) {
            QStringList names{QStringLiteral("data"), QStringLiteral("run")};
            for (const NumberKey &each : kNumberKeys)
                names << QString::fromLatin1(each.name);
            return wrongValue(key, value,
                              QStringLiteral("train has the keys %1").arg(names.join(QStringLiteral(", "))));
        } else if (known->whole) {
            const auto number = wholeNumber(key, value, 0);
            if (!number)
                return number.error();
            request.settings.*known->whole = *number;
        } else {
            bool isNumber = false;
            request.settings.*known->real = value.toDouble(&isNumber);
            if (!isNumber)
                return wrongValue(key, value, QStringLiteral("give a number"));
        }
    }
    if (request.settings.data.empty())
        return badInput("train has no data; write data=FILE");
    return request;
}

QString clusterWord(const cluster::Cluster &cluster)
{
    return qt(Json::parse(cluster::toJson(cluster)).dump(-1, ' ', false, Json::error_handler_t::replace));
}

QString planPatch(const plan::Document *before, const plan::Document &after)
{
    const Json from = before ? ownPart(Json::parse(plan::toJson(*before))) : Json();
    const Json patch = Json::diff(from, ownPart(Json::parse(plan::toJson(after))));
    // So that the word can stand in single quotation marks.
    return qt(patch.dump(-1, ' ', false, Json::error_handler_t::replace))
        .replace(QLatin1Char('\''), QStringLiteral("\\u0027"));
}

Status checkPatch(const QString &patch)
{
    const Json read = Json::parse(patch.toStdString(), nullptr, false);
    const bool good = read.is_array() && std::all_of(read.begin(), read.end(), [](const Json &each) {
                          return each.is_object() && each.contains("op") && each.contains("path");
                      });
    if (good)
        return {};
    return badInput("the edit is not a JSON patch; write '[{\"op\": \"replace\", \"path\": \"/micro_batches\", "
                    "\"value\": 4}]'");
}

Result<plan::Plan> patchedPlan(const plan::Document &document, const QString &patch)
{
    Json whole = Json::parse(plan::toJson(document));
    const Json before = ownPart(whole);
    Json after;
    try {
        after = before.patch(Json::parse(patch.toStdString()));
    } catch (const Json::exception &problem) {
        return badInput(QStringLiteral("the edit does not fit this plan (%1); record it again on this plan")
                            .arg(QString::fromUtf8(problem.what()))
                            .toStdString());
    }
    for (const auto &[key, value] : before.items())
        whole.erase(key);
    for (const auto &[key, value] : after.items())
        whole[key] = value;
    if (whole.contains("planner") && whole["planner"].is_object())
        whole["planner"]["search_seconds"] = 0;
    whole["estimate"] = Json::object();
    whole["predicted"] = nullptr;
    whole.erase("why");
    auto read = plan::documentFromJson(whole.dump());
    if (!read) {
        Error error = read.error();
        error.line = 0; // of a text that the user never sees
        return error;
    }
    return std::move(read->plan);
}

} // namespace planloom::ui
