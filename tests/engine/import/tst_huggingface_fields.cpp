// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/import/model/huggingface_families.h"
#include "tests/engine/import/huggingface_configs.h"

#include <QTest>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>

using namespace planloom;
using namespace planloom::test;
using nlohmann::json;

namespace {

const std::string kFolder = PLANLOOM_SOURCE_DIR "/tests/golden/huggingface/";

json small(const std::string &family) { return json::parse(smallConfig(family)); }

Result<import::Model> read(const json &config, std::int64_t sequence = 0)
{
    return import::readHuggingFaceConfig(config.dump(1), "config.json", {sequence});
}

/// The operators, their attributes and the parameters: what a field may change.
std::string signatureOf(const graph::Graph &graph)
{
    std::string text = graph::toJson(graph);
    return text;
}

/// Fields of windows of attention, which tst_huggingface_sequences has, and of Falcon's newer form, which falcon() has.
const std::set<std::string> kElsewhere{"layer_types", "num_kv_heads", "num_ln_in_parallel_attn", "sliding_window",
                                       "use_sliding_window"};

/// A value of a field that is built, other than the one of small().
json otherValue(const std::string &field, const json &config)
{
    static const std::map<std::string, json> values{
        {"_remove_final_layer_norm", true},
        {"activation", "relu"},
        {"activation_function", "gelu"},
        {"bias", true},
        {"dense_act_fn", "silu"},
        {"do_layer_norm_before", false},
        {"enable_bias", false},
        {"feed_forward_proj", "gated-gelu"},
        {"ffn_hidden_size", 20},
        {"head_dim", 8},
        {"hidden_act", "relu"},
        {"hidden_activation", "relu"},
        {"id2label", {{"0", "cat"}, {"1", "dog"}, {"2", "none"}}},
        {"is_gated_act", true},
        {"mlp_bias", true},
        {"multi_query", false},
        {"new_decoder_architecture", true},
        {"num_channels", 1},
        {"num_decoder_layers", 3},
        {"num_labels", 5},
        {"parallel_attn", false},
        {"qkv_bias", false},
        {"relative_attention_max_distance", 20},
        {"relative_attention_num_buckets", 12},
        {"rotary_pct", 1.0},
        {"use_bias", false},
        {"use_qkv_bias", true},
        {"word_embed_proj_dim", 4},
        {"n_inner", 20},
        {"num_key_value_heads", 2},
        {"sliding_window_pattern", 1},
        {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77.0}}},
        {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
        {"type_vocab_size", 3},
    };
    if (const auto found = values.find(field); found != values.end())
        return found->second;
    const std::string family = config["model_type"];
    static const std::set<std::string> tied{"bert", "falcon", "gpt2", "opt", "starcoder2", "t5"};
    if (field == "tie_word_embeddings")
        return !tied.contains(family) && !family.starts_with("gemma");
    if (field == "attention_bias")
        return family != "gpt_neox";
    if (field == "use_parallel_residual")
        return family != "gpt_neox";
    if (field == "partial_rotary_factor")
        return family == "phi3" ? 0.5 : 1.0;
    if (config.contains(field)) // a size
        return 2 * config[field].get<int>();
    return 0.123;
}

} // namespace

class TestHuggingFaceFields : public QObject {
    Q_OBJECT

private slots:
    /// A field that changes the model changes what is built.
    void built_data()
    {
        QTest::addColumn<QString>("family");
        QTest::addColumn<QString>("change");
        const auto row = [](const char *family, const char *change) {
            QTest::addRow("%s %s", family, change) << QString(family) << QString(change);
        };
        for (const char *change : {R"({"activation_function": "gelu"})", R"({"activation_function": "relu"})",
                                   R"({"layer_norm_epsilon": 1e-6})", R"({"n_inner": 24})", R"({"n_positions": 12})",
                                   R"({"tie_word_embeddings": false})", R"({"initializer_range": 0.01})"})
            row("gpt2", change);
        for (const char *change :
             {R"({"hidden_act": "gelu_new"})", R"({"type_vocab_size": 3})", R"({"layer_norm_eps": 1e-5})",
              R"({"tie_word_embeddings": false})", R"({"initializer_range": 0.01})"})
            row("bert", change);
        for (const char *family : {"llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "granite"}) {
            for (const char *change : {R"({"head_dim": 8})", R"({"rope_theta": 500000})", R"({"rms_norm_eps": 1e-4})",
                                       R"({"num_key_value_heads": 2})", R"({"initializer_range": 0.01})",
                                       R"({"rope_scaling": {"type": "linear", "factor": 2}})",
                                       R"({"rope_parameters": {"rope_type": "default", "rope_theta": 20000}})"})
                row(family, change);
            row(family,
                family == std::string("gemma") ? R"({"hidden_activation": "silu"})" : R"({"hidden_act": "gelu"})");
            row(family,
                family == std::string("gemma") ? R"({"tie_word_embeddings": false})"
                                               : R"({"tie_word_embeddings": true})");
        }
        for (const char *family : {"llama", "qwen3", "gemma", "olmo", "granite"})
            row(family, R"({"attention_bias": true})");
        for (const char *family : {"llama", "granite"})
            row(family, R"({"mlp_bias": true})");
        for (const char *field :
             {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
            row("granite", json{{field, 3.5}}.dump().c_str());
        row("llama", R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
            "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
        row("gemma2", R"({"attn_logit_softcapping": null})");
        row("gemma2", R"({"final_logit_softcapping": null})");
        row("phi3", R"({"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.5}})");
        for (const char *family : {"gpt_neox", "phi"})
            row(family, R"({"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.25}})");
    }
    void built()
    {
        QFETCH(QString, family);
        QFETCH(QString, change);
        json config = small(family.toStdString());
        const auto plain = read(config);
        QVERIFY2(plain.ok(), plain ? "" : plain.error().text().c_str());
        config.update(json::parse(change.toStdString()));
        const auto changed = read(config);
        QVERIFY2(changed.ok(), changed ? "" : changed.error().text().c_str());
        QVERIFY(signatureOf(*changed->graph) != signatureOf(*plain->graph));
        QVERIFY2(changed->warnings.empty(), qPrintable(texts(changed->warnings)));
    }

    /// Each field of each family's table does what its group says.
    void tables_data()
    {
        QTest::addColumn<QString>("family");
        for (const import::ModelFamily &family : import::modelFamilies())
            QTest::newRow(family.type) << QString(family.type);
    }
    void tables()
    {
        QFETCH(QString, family);
        const json config = small(family.toStdString());
        const auto plain = read(config);
        QVERIFY2(plain.ok(), plain ? "" : plain.error().text().c_str());
        const auto families = import::modelFamilies();
        const auto &known = *std::find_if(families.begin(), families.end(),
                                          [&](const import::ModelFamily &one) { return one.type == family; });
        std::set<std::string> seen;
        for (const auto rules : {known.fields, known.shared}) {
            for (const import::FieldRule &rule : rules) {
                if (!seen.insert(rule.name).second || kElsewhere.contains(rule.name))
                    continue;
                using Kind = import::FieldRule::Kind;
                json changed = config;
                changed[rule.name] = rule.kind == Kind::Built ? otherValue(rule.name, config) : json(0.123);
                const auto model = read(changed);
                const std::string said = model ? texts(model->warnings).toStdString() : model.error().message;
                const bool same = model && signatureOf(*model->graph) == signatureOf(*plain->graph);
                switch (rule.kind) {
                case Kind::Built: QVERIFY2(model && said.empty() && !same, (rule.name + (": " + said)).c_str()); break;
                case Kind::Only:
                    QVERIFY2(!model && said.find(std::string("\"") + rule.name + "\": is 0.123") != std::string::npos,
                             (rule.name + (": " + said)).c_str());
                    break;
                case Kind::LeftOut:
                    QCOMPARE(said, "dropout is not built, and left out: " + std::string(rule.name) + " 0.123");
                    break;
                case Kind::NoEffect: QVERIFY2(same && said.empty(), (rule.name + (": " + said)).c_str()); break;
                }
            }
        }
        QVERIFY(seen.size() > 15);
        json unknown = config;
        unknown["field_of_tomorrow"] = true;
        const auto model = read(unknown);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QCOMPARE(texts(model->warnings),
                 QString("fields of config.json that are not known have no effect: \"field_of_tomorrow\""));
    }

    /// GELU and its approximation by tanh differ too little to be told apart by a loss.
    void activations_data()
    {
        QTest::addColumn<QString>("type");
        QTest::addColumn<QString>("approximate");
        QTest::newRow("gelu") << "Gelu"
                              << "none";
        QTest::newRow("gelu_python") << "Gelu"
                                     << "none";
        QTest::newRow("gelu_new") << "Gelu"
                                  << "tanh";
        QTest::newRow("gelu_fast") << "Gelu"
                                   << "tanh";
        QTest::newRow("gelu_pytorch_tanh") << "Gelu"
                                           << "tanh";
        QTest::newRow("relu") << "Relu"
                              << "";
        QTest::newRow("silu") << "Silu"
                              << "";
        QTest::newRow("swish") << "Silu"
                               << "";
    }
    void activations()
    {
        QFETCH(QString, type);
        QFETCH(QString, approximate);
        const std::pair<const char *, const char *> fields[] = {{"gpt2", "activation_function"},
                                                                {"bert", "hidden_act"},
                                                                {"llama", "hidden_act"},
                                                                {"gemma", "hidden_activation"}};
        for (const auto &[family, field] : fields) {
            json config = small(family);
            config[field] = QTest::currentDataTag();
            const auto model = read(config);
            QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
            std::int64_t found = 0;
            for (const graph::Op &op : model->graph->ops())
                if (op.type == "Gelu" || op.type == "Relu" || op.type == "Silu") {
                    QCOMPARE(QString::fromStdString(op.type.name()), type);
                    QCOMPARE(QString::fromStdString(op.text("approximate")), approximate);
                    ++found;
                }
            QCOMPARE(found, std::int64_t{family == std::string("bert") ? 3 : 2});
        }
        for (const char *family : {"gpt2", "gemma"}) // where it is left out
            for (const auto model = read(small(family)); const graph::Op &op : model->graph->ops())
                QVERIFY(op.type != "Gelu" || op.text("approximate") == "tanh");
    }

    /// What is not built is refused, with the field's name, its line and what to do.
    void refused_data()
    {
        QTest::addColumn<QString>("family");
        QTest::addColumn<QString>("change");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *family, const char *change, const char *says) {
            QTest::addRow("%s %s", family, change) << QString(family) << QString(change) << QString(says);
        };
        row("gpt2", R"({"activation_function": "quick_gelu"})", "\"activation_function\": is \"quick_gelu\"");
        row("gpt2", R"({"add_cross_attention": true})", "\"add_cross_attention\": is true");
        row("gpt2", R"({"scale_attn_by_inverse_layer_idx": true})", "\"scale_attn_by_inverse_layer_idx\": is true");
        row("gpt2", R"({"scale_attn_weights": false})", "\"scale_attn_weights\": is false");
        row("gpt2", R"({"architectures": ["GPT2ForSequenceClassification"]})",
            "\"architectures\": names \"GPT2ForSequenceClassification\", whose head is not built; GPT2LMHeadModel is");
        row("gpt2", R"({"pruned_heads": {"0": [1]}})", "\"pruned_heads\"");
        row("bert", R"({"hidden_act": "tanh"})", "\"hidden_act\": is \"tanh\"");
        row("bert", R"({"position_embedding_type": "relative_key"})", "\"position_embedding_type\"");
        row("bert", R"({"is_decoder": true})", "\"is_decoder\": is true");
        row("bert", R"({"architectures": ["BertModel"]})", "\"architectures\": names \"BertModel\"");
        row("bert", R"({"architectures": "BertForMaskedLM"})", "\"architectures\": a list is needed");
        row("llama", R"({"architectures": ["LlamaForCausalLM", "LlamaForSequenceClassification"]})",
            "\"LlamaForSequenceClassification\"");
        row("llama", R"({"hidden_act": "relu2"})", "\"hidden_act\": is \"relu2\"");
        row("llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})", "\"rope_scaling\": is of type yarn");
        row("llama", R"({"rope_parameters": {"rope_type": "longrope"}})", "\"rope_parameters\": is of type longrope");
        row("llama", R"({"rope_scaling": {"type": "linear"}})", "\"rope_scaling.factor\": is missing");
        row("llama", R"({"rope_scaling": {"type": "linear", "factor": 0}})",
            "\"rope_scaling.factor\": must be positive");
        row("llama", R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
            "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
            "\"rope_scaling.high_freq_factor\": must be greater");
        row("llama", R"({"rope_theta": 1e-300, "rope_scaling": {"type": "linear", "factor": 1e-300}})",
            "\"rope_theta\": and rope_scaling make a frequency that is no number");
        row("llama", R"({"partial_rotary_factor": 0.5})", "\"partial_rotary_factor\": is 0.5");
        row("llama", R"({"quantization_config": {"bits": 4}})", "\"quantization_config\"");
        row("llama", R"({"num_key_value_heads": 3})", "3 key-value heads");
        row("llama", R"({"head_dim": 3})", "even head size");
        row("phi3", R"({"attention_bias": true})", "\"attention_bias\": is true");
        row("gemma", R"({"hidden_act": "silu"})", "\"hidden_act\": is \"silu\"");
        row("olmo", R"({"clip_qkv": 8.0})", "\"clip_qkv\": is 8.0");
        row("gemma3_text", R"({"layer_types": ["full_attention"]})",
            "\"layer_types\": names 1 layers, and num_hidden_layers is 2");
        row("gemma3_text", R"({"final_logit_softcapping": 30.0})", "\"final_logit_softcapping\": is 30.0");
        row("qwen3", R"({"layer_types": ["full_attention", "linear_attention"]})",
            "\"layer_types\": names linear_attention");
        row("llama", R"({"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.5}})",
            "\"rope_parameters\": turns a part of each head");
        row("phi", R"({"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.125}})",
            "\"rope_parameters\": turns 1 of a head's 8 elements");
        row("falcon", R"({"alibi": true})", "\"alibi\": is true");
        row("falcon", R"({"new_decoder_architecture": true, "parallel_attn": false})", "\"parallel_attn\": is false");
        row("falcon", R"({"multi_query": false, "num_kv_heads": 1})", "\"num_kv_heads\": differs from");
        row("falcon", R"({"num_ln_in_parallel_attn": 2})", "\"num_ln_in_parallel_attn\": is built with");
        row("gpt_neox", R"({"rotary_pct": 0.2})", "\"rotary_pct\": turns 1 of a head's 8 elements");
        row("gpt_neox", R"({"rotary_pct": 1.5})", "\"rotary_pct\": turns 12 of a head's 8 elements");
        row("gpt_neox", R"({"rope_theta": 5})", "write rotary_emb_base instead");
        row("opt", R"({"layer_norm_elementwise_affine": false})", "\"layer_norm_elementwise_affine\": is false");
        row("t5", R"({"feed_forward_proj": "gated-tanh"})", "\"feed_forward_proj\": is \"tanh\"");
        row("t5", R"({"is_encoder_decoder": false})", "\"is_encoder_decoder\": is false");
        row("t5", R"({"n_positions": 100000})", "and tokens must lie between 1 and 65536");
        row("t5", R"({"relative_attention_max_distance": 4})", "must reach beyond half of them");
        row("phi", R"({"qk_layernorm": true})", "\"qk_layernorm\": is true");
        row("stablelm", R"({"qk_layernorm": true})", "\"qk_layernorm\": is true");
        row("starcoder2", R"({"norm_type": "rms_norm"})", "\"norm_type\": is \"rms_norm\"");
        row("vit", R"({"id2label": {"0": "cat"}})", "\"id2label\": names one label");
        row("vit", R"({"problem_type": "regression"})", "\"problem_type\": is \"regression\"");
        row("vit", R"({"patch_size": 9})", "images of 8 pixels have no patch of 9");
    }
    void refused()
    {
        QFETCH(QString, family);
        QFETCH(QString, change);
        QFETCH(QString, says);
        json config = small(family.toStdString());
        config.update(json::parse(change.toStdString()));
        const auto model = read(config);
        QVERIFY(!model.ok());
        QVERIFY2(QString::fromStdString(model.error().message).contains(says), model.error().message.c_str());
        QCOMPARE(model.error().file, std::string("config.json"));
    }

    void refusedIsUnsupportedAndNamesTheLine()
    {
        const auto model =
            import::readHuggingFaceConfig("{\n\"model_type\": \"gpt2\",\n\"add_cross_attention\": true\n}",
                                          "config.json");
        QCOMPARE(model.error().code, ErrorCode::Unsupported);
        QCOMPARE(model.error().line, 3);
    }

    void otherFamilies_data()
    {
        QTest::addColumn<QString>("says");
        QTest::newRow("mixtral") << "experts";
        QTest::newRow("qwen2_moe") << "experts";
        QTest::newRow("qwen3_moe") << "experts";
        QTest::newRow("gemma3") << "gemma3_text is";
        QTest::newRow("bart") << "encoders with a decoder";
        QTest::newRow("whisper") << "encoders with a decoder";
        QTest::newRow("clip") << "images";
        QTest::newRow("unheard-of") << "bert, falcon, gemma, gemma2, gemma3_text, gpt2, gpt_neox, granite, llama, "
                                       "mistral, olmo, olmo2, opt, phi, phi3, qwen2, qwen3, stablelm, starcoder2, t5 "
                                       "and vit are built in";
    }
    void otherFamilies()
    {
        QFETCH(QString, says);
        const auto model = read({{"model_type", QTest::currentDataTag()}});
        QVERIFY(!model.ok());
        QCOMPARE(model.error().code, ErrorCode::Unsupported);
        const QString message = QString::fromStdString(model.error().message);
        QVERIFY2(message.contains(says) && message.contains(QTest::currentDataTag()), qPrintable(message));
    }

    /// The three forms of modeling_falcon.py's decoder layer, by their normalisations and the rows of query_key_value
    /// (4 heads of 4: 16 of queries, 4 of each key or value head).
    void falcon_data()
    {
        QTest::addColumn<QString>("change");
        QTest::addColumn<QStringList>("norms");
        QTest::addColumn<int>("rows");
        const QStringList one{"input_layernorm"};
        QTest::newRow("7B") << "{}" << one << 24;
        QTest::newRow("7B one behind the other")
            << R"({"parallel_attn": false})" << QStringList{"input_layernorm", "post_attention_layernorm"} << 24;
        QTest::newRow("heads of their own") << R"({"multi_query": false})" << one << 48;
        QTest::newRow("40B") << R"({"new_decoder_architecture": true, "num_kv_heads": 2})"
                             << QStringList{"ln_attn", "ln_mlp"} << 32;
        QTest::newRow("11B") << R"({"new_decoder_architecture": true, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1})"
                             << one << 32;
    }
    void falcon()
    {
        QFETCH(QString, change);
        QFETCH(QStringList, norms);
        QFETCH(int, rows);
        json config = small("falcon");
        config["num_attention_heads"] = 4;
        config.update(json::parse(change.toStdString()));
        const auto model = read(config);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QStringList found;
        for (const TensorId id : model->graph->withRole(graph::TensorRole::Parameter)) {
            const QString name = QString::fromStdString(model->graph->tensor(id).name);
            const QString layer = "transformer.h.0.";
            if (name.startsWith(layer) && name.endsWith(".weight") && model->graph->tensor(id).shape.rank() == 1)
                found << name.mid(layer.size()).chopped(7);
        }
        found.sort();
        QCOMPARE(found, norms);
        const auto packed = model->graph->find("transformer.h.0.self_attention.query_key_value.weight");
        QCOMPARE(model->graph->tensor(packed).shape[0].size, std::int64_t{rows});
    }

    void dropoutIsSaid()
    {
        json config = small("gpt2");
        config["attn_pdrop"] = 0.1;
        config["embd_pdrop"] = 0.0;
        config["resid_pdrop"] = 0.2;
        const auto model = read(config);
        QVERIFY(model.ok());
        QCOMPARE(texts(model->warnings),
                 QString("dropout is not built, and left out: attn_pdrop 0.1, resid_pdrop 0.2"));
    }

    void unknownFieldsAreNamed()
    {
        json config = small("llama");
        config["attention_bias_of_tomorrow"] = true;
        config["transformers_version"] = "4.40.0";
        config["torch_dtype"] = "bfloat16";
        config["rope_theta"] = nullptr;
        const auto model = read(config);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QCOMPARE(texts(model->warnings),
                 QString("fields of config.json that are not known have no effect: \"attention_bias_of_tomorrow\""));
    }

    /// Every configuration of tests/golden/huggingface/published.json has as many parameters as it says, to the unit;
    /// counts.txt there is the table of them.
    void publishedCounts()
    {
        const auto text = readFile(kFolder + "published.json");
        QVERIFY(text.ok());
        const json all = json::parse(*text);
        QVERIFY(all["models"].size() >= 30);
        std::set<std::string> families;
        std::string table = "family       parameters           ours  configuration (where the number was published)\n";
        for (const json &row : all["models"]) {
            const std::string family = row["config"]["model_type"];
            const std::string source = row["source"];
            const auto model = read(row["config"]);
            QVERIFY2(model.ok(), model ? "" : (source + ": " + model.error().text()).c_str());
            families.insert(family);
            QVERIFY(!row["licence"].get<std::string>().empty());
            QCOMPARE(qint64{model->graph->parameterCount()}, row["parameters"].get<qint64>());
            table += fmt::format("{:<11} {:>12} {:>14}  {} ({})\n", family, row["parameters"].get<qint64>(),
                                 model->graph->parameterCount(), source, row["count"].get<std::string>());
        }
        for (const import::ModelFamily &family : import::modelFamilies())
            QVERIFY2(families.contains(family.type), family.type);
        if (qEnvironmentVariableIsSet("PLANLOOM_UPDATE_GOLDEN"))
            std::ofstream(kFolder + "counts.txt") << table;
        const auto expected = readFile(kFolder + "counts.txt");
        QVERIFY(expected.ok());
        QCOMPARE(QString::fromStdString(table), QString::fromStdString(*expected));
    }

    /// Attributes of rotary positions: those of transformers' _compute_llama3_parameters for theta 500000, heads of 8,
    /// worked by hand: wavelengths 6.3, 167, 4443, 118142 against the borders 8192 / 4 and 8192 / 1.
    void llama3Frequencies()
    {
        json config = small("llama");
        config["head_dim"] = 8;
        config["rope_theta"] = 500000;
        config["rope_scaling"] = {{"rope_type", "llama3"},
                                  {"factor", 8},
                                  {"low_freq_factor", 1},
                                  {"high_freq_factor", 4},
                                  {"original_max_position_embeddings", 8192}};
        const auto model = read(config);
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        for (const graph::Op &op : model->graph->ops()) {
            if (op.type != "RotaryEmbedding")
                continue;
            const auto have = op.numbers("inverse_frequencies");
            QCOMPARE(have.size(), std::size_t{4});
            const double third = std::pow(500000., -0.5);
            const double smooth = (8192 * third / (2 * M_PI) - 1) / 3;
            const double want[] = {1, std::pow(500000., -0.25), third * ((1 - smooth) / 8 + smooth),
                                   std::pow(500000., -0.75) / 8};
            for (int i = 0; i < 4; ++i)
                QVERIFY(std::abs(have[static_cast<std::size_t>(i)] / want[i] - 1) < 1e-12);
            QVERIFY(smooth > 0 && smooth < 1);
        }
    }
};

QTEST_GUILESS_MAIN(TestHuggingFaceFields)
#include "tst_huggingface_fields.moc"
