// The ids of Hugging Face models against those of the real classes under real DeepSpeed (tests/golden/ids).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/ids/id_table.h"
#include "sim/ids/model_config.h"
#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFolder = "tests/golden/ids/";

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

// The configured model as a scenario that trains it once.
Experiment trained(const ScenarioModel& model) {
  Scenario once = scenario("zero3sim: 1\nprogram: [train]\nmodel: {preset: mlp}\n");
  once.model = model;
  Plan plan = model.extra_of(0).forward;
  if (!model.extra_of(0).has_forward) {
    for (const int child : model.callable_children(0)) plan.push_back(PlanItem{.module = child});
  }
  for (StepOp& op : once.program.front().ops) {
    if (op.kind == OpKind::kForward) op.plan = plan;
  }
  return once.experiment();
}

json modules_of(const IdTable& table) {
  json rows = json::array();
  for (const ModuleRow& row : table.modules) {
    if (row.id >= 0) rows.push_back({row.id, row.name == "root" ? "" : row.name, row.type});
  }
  return rows;
}

json params_of(const IdTable& table) {
  json rows = json::array();
  for (const ParamRow& row : table.params) rows.push_back({row.ds_id, row.name, row.shape, row.persistent});
  return rows;
}

json sorted(json rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

void expect_as_recorded(const json& head, const json& line) {
  const std::string path = kFolder + "configs/" + line["config"].get<std::string>() + ".json";
  const std::string version = head["transformers"];
  SCOPED_TRACE(path + " of transformers " + version);
  const ScenarioModel model = read_model_config(path, file_text(path), version[0] - '0').model;
  Experiment experiment = trained(model);
  experiment.settings.param_persistence_threshold_numel = head["persistence_threshold"];
  const Release release = *Release::parse(head["deepspeed"].get<std::string>());
  const IdTable table = id_table(experiment, release);
  EXPECT_EQ(modules_of(table), sorted(line["modules"]));
  EXPECT_EQ(params_of(table), sorted(line["params"]));
  const std::string calls = forwards_of(experiment);
  EXPECT_EQ("[" + calls.substr(0, calls.size() - 1) + "]", line["forward"].get<std::string>());
}

TEST(ModelIds, AreThoseOfRealDeepSpeed) {
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::istringstream lines(file_text(entry.path().string()));
    std::string line;
    std::getline(lines, line);
    const json head = json::parse(line);
    SCOPED_TRACE(entry.path().string());
    for (; std::getline(lines, line); ++models) expect_as_recorded(head, json::parse(line));
  }
  EXPECT_GT(models, 60U);
}

std::string config_error(const std::string& text) {
  try {
    read_model_config("config.json", text, 0);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(ModelIds, ConfigsThatCannotBeRead) {
  EXPECT_THAT(config_error("{\"model_type\": \"llama\",\n  x}"),
              HasSubstr("config.json:2:3: error: this is not JSON"));
  EXPECT_THAT(config_error("{\"hidden_size\": 8}"),
              HasSubstr("config.json:1:1: error: neither architectures nor model_type"));
  EXPECT_THAT(config_error("{\"architectures\": []}"), HasSubstr("architectures is empty"));
  const std::string unknown = config_error("{\n\"model_type\": \"mamba\"}");
  EXPECT_THAT(unknown, HasSubstr("config.json:2:15: error: model_type: 'mamba' is not known"));
  EXPECT_THAT(unknown, HasSubstr("known are gpt2, bloom, t5, llama"));
  EXPECT_THAT(unknown, HasSubstr("a scenario file can describe any model"));
  EXPECT_THAT(config_error("{\"architectures\": [\"LlamaForSequenceClassification\"]}"),
              HasSubstr("architectures: 'LlamaForSequenceClassification' is not known"));
  EXPECT_THAT(config_error("{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"qwen2\"}"),
              HasSubstr("model_type 'qwen2' is not that of LlamaForCausalLM"));
}

TEST(ModelIds, SizesThatCannotBe) {
  const std::string llama = "{\"model_type\": \"llama\",\n ";
  EXPECT_THAT(config_error(llama + "\"hidden_size\": -8}"),
              HasSubstr("config.json:2:17: error: hidden_size"));
  EXPECT_THAT(config_error(llama + "\"num_hidden_layers\": 0}"), HasSubstr("num_hidden_layers is 0"));
  EXPECT_THAT(config_error(llama + "\"vocab_size\": \"many\"}"), HasSubstr("vocab_size"));
  EXPECT_THAT(config_error(llama + "\"num_attention_heads\": 7}"),
              HasSubstr("hidden_size 4096 is not a multiple of num_attention_heads 7"));
  EXPECT_THAT(config_error(llama + "\"num_key_value_heads\": 5}"),
              HasSubstr("num_attention_heads 32 is not a multiple of num_key_value_heads 5"));
  EXPECT_THAT(config_error("{\"model_type\": \"gpt2\", \"add_cross_attention\": true}"),
              HasSubstr("layers with cross-attention are not modelled"));
  EXPECT_THAT(config_error("{\"model_type\": \"t5\", \"feed_forward_proj\": \"swish\"}"),
              HasSubstr("feed_forward_proj must be relu or gated-gelu"));
}

TEST(ModelIds, TransformersVersionOfTheConfigChoosesTheClasses) {
  const std::string mixtral = "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 1";
  const auto find = [&](const std::string& more, int version, const char* path) {
    return read_model_config("config.json", mixtral + more + "}", version).model.find(0, path);
  };
  const char* fused = "model.layers.0.mlp.experts.act_fn";
  const char* listed = "model.layers.0.block_sparse_moe.experts.7.w1";
  EXPECT_GE(find(", \"transformers_version\": \"5.0.0\"", 0, fused), 0);
  EXPECT_GE(find(", \"transformers_version\": \"4.36.0\"", 0, listed), 0);
  EXPECT_GE(find("", 0, listed), 0);
  EXPECT_GE(find(", \"transformers_version\": \"4.36.0\"", 5, fused), 0);
}

TEST(ModelIds, ASharedModuleHasTheLastOfItsIdsAndAllItsNames) {
  const ScenarioModel t5 =
      read_model_config("config.json", "{\"model_type\": \"t5\", \"num_layers\": 1}", 4).model;
  const IdTable table = id_table(trained(t5), known_releases().back());
  const auto shared = std::ranges::find(table.modules, "shared", &ModuleRow::name);
  ASSERT_NE(shared, table.modules.end());
  EXPECT_THAT(shared->also, ElementsAre("encoder.embed_tokens", "decoder.embed_tokens"));
  EXPECT_GT(shared->id, 20);
  EXPECT_THAT(table.params.front().also,
              ElementsAre("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"));
}

}  // namespace
}  // namespace zero3::sim
