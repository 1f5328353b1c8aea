// Models of scenario files: layers, sharing, ties, external parameters, what is frozen, and what cannot be.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScenarioModel model_of(const std::string& yaml) {
  return scenario("zero3sim: 1\nprogram: [train]\nmodel:\n" + yaml).model;
}

const ModuleSpec& at(const ScenarioModel& model, std::string_view path) {
  const int index = model.find(0, path);
  EXPECT_GE(index, 0) << path;
  return model.module(index);
}

TEST(ScenarioModel, LayersAsTorchPrintsThem) {
  const ScenarioModel model = model_of(R"(
  type: Net
  children:
    fc: Linear(in_features=8, out_features=4, bias=False)
    emb: Embedding(100, 8, padding_idx=0)
    norm: LayerNorm((8,), eps=1e-05, elementwise_affine=True)
    rms: LlamaRMSNorm((8,), eps=1e-06)
    conv: Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1))
    drop: Dropout(p=0.1, inplace=False)
    mine: {type: MyLayer, params: {scale: 5, table: [2, 3]}}
)");
  EXPECT_EQ(model.spec.modules[0].type, "Net");
  ASSERT_EQ(at(model, "fc").params.size(), 1u);
  EXPECT_THAT(at(model, "fc").params[0].shape, ElementsAre(4, 8));
  EXPECT_THAT(at(model, "emb").params[0].shape, ElementsAre(100, 8));
  EXPECT_EQ(at(model, "norm").params.size(), 2u);
  EXPECT_EQ(at(model, "rms").params.size(), 1u);
  EXPECT_THAT(at(model, "conv").params[0].shape, ElementsAre(16, 3, 3, 3));
  EXPECT_TRUE(at(model, "drop").params.empty());
  EXPECT_THAT(at(model, "mine").params[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(model.total_numel(), 32 + 800 + 16 + 8 + 16 * 27 + 16 + 11);
}

TEST(ScenarioModel, SharedModulesTiedAndExternalParams) {
  const ScenarioModel model = model_of(R"(
  children:
    encoder:
      children:
        emb: {same_as: shared}
        body: {type: Body, external: [shared.weight, {param: head.bias, registered: true}]}
    shared: Embedding(10, 4)
    head: {type: Head, params: {weight: {same_as: shared.weight}, bias: {shape: 10, requires_grad: false}}}
)");
  const int shared = model.find(0, "shared");
  EXPECT_EQ(model.find(0, "encoder.emb"), shared);
  EXPECT_EQ(at(model, "shared").name, "shared");
  const ParamSpec& tied = at(model, "head").params[0];
  EXPECT_EQ(tied.tied_module, shared);
  EXPECT_EQ(tied.tied_param, 0);
  EXPECT_THAT(tied.shape, ElementsAre(10, 4));
  EXPECT_FALSE(at(model, "head").params[1].requires_grad);
  const std::vector<ExternalUse>& uses = at(model, "encoder.body").externals;
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].module, shared);
  EXPECT_FALSE(uses[0].registered);
  EXPECT_TRUE(uses[1].registered);
  EXPECT_EQ(model.total_numel(), 50);
}

TEST(ScenarioModel, FrozenLeafAndOutputs) {
  const ScenarioModel model = model_of(R"yaml(
  children:
    tower: {frozen: true, children: {fc: "Linear(4, 4)"}}
    moe: {type: Moe, leaf: true, children: {e0: "Linear(4, 4)"}}
    other: {type: Experts, outputs: 3}
    head: Linear(4, 4)
  freeze: [head.bias]
  leaf_modules: [Experts]
)yaml");
  EXPECT_FALSE(at(model, "tower.fc").params[0].requires_grad);
  EXPECT_TRUE(at(model, "moe").leaf);
  EXPECT_TRUE(at(model, "other").leaf);
  EXPECT_EQ(at(model, "other").outputs, 3);
  EXPECT_TRUE(at(model, "head").params[0].requires_grad);
  EXPECT_FALSE(at(model, "head").params[1].requires_grad);
}

TEST(ScenarioModel, TwoEnginesOnRootsThatShareModules) {
  const Scenario two = scenario(R"yaml(
zero3sim: 1
model:
  children: {body: "Linear(4, 4)", policy: "Linear(4, 9)"}
  other_roots: {critic: {children: {body: {same_as: body}, value: "Linear(4, 1)"}}}
engines: [{name: actor}, {root: critic, optimizer: false}]
program:
  - train
  - {forward: all, grad: false, engine: 1}
)yaml");
  const Experiment experiment = two.experiment();
  ASSERT_EQ(experiment.engines.size(), 2u);
  EXPECT_TRUE(experiment.engines[0].with_optimizer);
  EXPECT_FALSE(experiment.engines[1].with_optimizer);
  EXPECT_EQ(experiment.model.modules[static_cast<size_t>(experiment.engines[1].root)].name, "critic");
  EXPECT_EQ(forwards_of(experiment), "body policy\nbody critic.value\n");
}

TEST(ScenarioModel, ACycle) {
  EXPECT_EQ(error_of("zero3sim: 1\nprogram: [train]\nmodel:\n  children:\n    block:\n      children:\n"
                     "        inner: {children: {again: {same_as: block}}}\n"),
            "x.yaml:7:45: error: a cycle in the model: 'block' holds 'again', which is 'block' again\n"
            "          inner: {children: {again: {same_as: block}}}\n"
            "                                              ^\n"
            "  a module cannot be below itself");
  EXPECT_THAT(
      error_of("zero3sim: 1\nprogram: [train]\nmodel:\n  children: {a: {same_as: b}, b: {same_as: a}}\n"),
      HasSubstr("there is no module 'b'"));
  EXPECT_THAT(
      error_of("zero3sim: 1\nprogram: [train]\nmodel:\n  children: {a: {forward: b}, b: {forward: a}}\n"),
      HasSubstr("calls itself without end"));
}

TEST(ScenarioModel, NamesAndSizesThatCannotBe) {
  const std::string head = "zero3sim: 1\nprogram: [train]\nmodel:\n  children:\n    ";
  EXPECT_EQ(error_of(head + "fc: Linear(4)\n"),
            "x.yaml:5:9: error: Linear takes 2 size(s): Linear(in_features, out_features, bias=True)\n"
            "      fc: Linear(4)\n"
            "          ^\n"
            "  or give its parameters: {type: MyLayer, params: {weight: [4, 4]}}");
  EXPECT_THAT(error_of(head + "fc: LSTM(4, 4)\n"), HasSubstr("the parameters of LSTM(4, 4) are not known"));
  EXPECT_THAT(error_of(head + "fc: Linear(4, -4)\n"), HasSubstr("'-4' is not a size"));
  EXPECT_EQ(error_of(head + "a.b: ReLU\n"),
            "x.yaml:5:5: error: 'a.b' is no name for a module\n"
            "      a.b: ReLU\n"
            "      ^\n"
            "  letters, digits and _");
  EXPECT_EQ(error_of(head + "fc: {params: {w: [4294967296, 4294967296]}}\n"),
            "x.yaml:5:22: error: 'w' has more than 2^62 elements\n"
            "      fc: {params: {w: [4294967296, 4294967296]}}\n"
            "                       ^");
  EXPECT_EQ(error_of(head + "fc: {params: {w: [-1]}}\n"),
            "x.yaml:5:23: error: an extent of 'w' is negative\n"
            "      fc: {params: {w: [-1]}}\n"
            "                        ^\n"
            "  it counts: 0 or more");
  EXPECT_THAT(error_of(head + "fc: {params: {w: 4}, children: {w: ReLU}}\n"),
              HasSubstr("the name 'w' is taken by a parameter of this module"));
  EXPECT_THAT(error_of(head + "a: {params: {w: 3e18}}\n    b: {params: {w: 3e18}}\n"),
              HasSubstr("more than 2^62 elements"));
}

// Each module holds the next one twice, so that the last is reached by 2^60 paths.
TEST(ScenarioModel, SharingThatExplodes) {
  std::string text = "zero3sim: 1\nprogram: [train]\nmodel:\n  children:\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = std::to_string(i + 1);
    text += "    m" + std::to_string(i) + ": {children: {a: {same_as: m" + next +
            "}, b: {children: {c: {same_as: m" + next + "}}}}}\n";
  }
  EXPECT_THAT(error_of(text + "    m60: ReLU\n"), HasSubstr("the model has 1000000 modules or more"));
}

TEST(ScenarioModel, LongChainsOfSharing) {
  std::string text = "zero3sim: 1\nprogram: [train]\nmodel:\n  children:\n";
  for (int i = 0; i < 2000; ++i) {
    text += "    m" + std::to_string(i) + ": {children: {a: {same_as: m" + std::to_string(i + 1) + "}}}\n";
  }
  EXPECT_THAT(error_of(text + "    m2000: ReLU\n"), HasSubstr("modules nested more than 500 deep"));
}

}  // namespace
}  // namespace zero3::sim
