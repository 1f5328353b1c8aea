// Hooks, ids, persistent params and which coordinator a hook asks: DeepSpeedZeRoOffload.
#include "coordinator/parameter_offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::Config;
using test::FakeCommunicator;
using test::model;
using test::ModelBuilder;
using test::names_of;
using test::release;
using testing::ElementsAre;

// An offload object on a model, without the engine around it.
struct Offloaded {
  explicit Offloaded(std::string_view of_release, const ModelBuilder& with = model().layers("AB"),
                     Settings settings = {})
      : runtime{behaviour_of(release(of_release)), settings, communicator, nullptr},
        builder(with),
        built(with.spec()) {
    make();
  }
  void make() {
    offloads.push_back(std::make_unique<ParameterOffload>(process, built.module(0), runtime, partitioner));
  }
  ParameterOffload& operator*() { return *offloads.front(); }
  Module& module(std::string_view name) { return built.module(builder.index(name)); }

  FakeCommunicator communicator{0, 1};
  Runtime runtime;
  Process process;
  ModelBuilder builder;
  Model built;
  Partitioner partitioner{runtime};
  std::vector<std::unique_ptr<ParameterOffload>> offloads;
};

// eras.md, 5.2: the parent takes the counter's value, each child increments before it recurses.
TEST(ModuleIds, AreHandedOutDepthFirst) {
  Offloaded o("0.19.8", model().layers("A").layer("A.b").layers("C"));
  EXPECT_EQ(o.module("").ds_id, 0);
  EXPECT_EQ(o.module("A").ds_id, 1);
  EXPECT_EQ(o.module("b").ds_id, 2);
  EXPECT_EQ(o.module("C").ds_id, 3);
}

// A module with two parents is visited twice: its hooks are there twice, its id is the last one given.
TEST(ModuleIds, SharedModuleHasItsLastIdAndHooksTwice) {
  Offloaded o("0.19.8", model().layers("AB").also_below("X", "A"));
  EXPECT_EQ(o.module("A").ds_id, 4);
  EXPECT_EQ(o.module("X").ds_id, 3);
  EXPECT_EQ(o.module("A").forward_pre_hooks.size(), 2 * o.module("B").forward_pre_hooks.size());
  EXPECT_EQ(o.module("A").forward_hooks.size(), 2 * o.module("B").forward_hooks.size());
}

// The counter is never restarted: a second engine's root takes its value as it stands, the last id of the first one.
TEST(ModuleIds, SecondEngineGoesOnWithTheCounter) {
  Offloaded o("0.19.8");
  o.make();
  EXPECT_EQ(o.module("").ds_id, 2);
  EXPECT_EQ(o.module("A").ds_id, 3);
  EXPECT_EQ(o.module("B").ds_id, 4);
}

// reports.md, R36: ids grow by the number of modules minus one with each registration.
TEST(ModuleIds, RegisteringAgainGivesNewIds) {
  Offloaded o("0.15.2");
  (*o).remove_module_hooks();
  EXPECT_EQ((*o).register_module_hooks(), nullptr);
  EXPECT_EQ(o.module("").ds_id, 2);
  EXPECT_EQ(o.module("B").ds_id, 4);
}

// #4966 (v0.13.0): the hooks are on the leaf only.
TEST(Hooks, LeafModulesChildrenHaveNoneFromV0_13_0) {
  const ModelBuilder block = model().layers("A").layer("A.b").leaf("A");
  Offloaded before("0.12.6", block);
  EXPECT_FALSE(before.module("b").forward_pre_hooks.empty());
  Offloaded after("0.13.0", block);
  EXPECT_TRUE(after.module("b").forward_pre_hooks.empty());
  EXPECT_EQ(after.module("b").ds_id, -1);
}

// Root pre-forward reset: none to v0.3.13, after root's own hook to v0.5.10 (#867), before it from v0.15.4 (#6662).
TEST(Hooks, RootsResetStandsWhereTheReleaseHasIt) {
  const auto place = [](std::string_view of_release) {
    Offloaded o(of_release);
    const auto& hooks = o.module("").forward_pre_hooks;
    const auto reset = std::ranges::find(hooks, Hook::Kind::kResetStep, &Hook::kind);
    if (reset == hooks.end()) return "none";
    return reset == hooks.begin() ? "first" : "last";
  };
  EXPECT_STREQ(place("0.3.13"), "none");
  EXPECT_STREQ(place("0.3.14"), "last");
  EXPECT_STREQ(place("0.5.10"), "last");
  EXPECT_STREQ(place("0.6.0"), "none");
  EXPECT_STREQ(place("0.15.3"), "none");
  EXPECT_STREQ(place("0.15.4"), "first");
}

TEST(Hooks, RemovalLeavesTheRootsReset) {
  Offloaded o("0.19.8");
  (*o).remove_module_hooks();
  EXPECT_EQ(o.module("").forward_pre_hooks.size(), 1U);
  EXPECT_TRUE(o.module("A").forward_pre_hooks.empty());
  EXPECT_TRUE(o.module("A").forward_hooks.empty());
}

TEST(Hooks, RemovalLeavesAnotherEnginesHooks) {
  Offloaded o("0.19.8");
  o.make();
  (*o).remove_module_hooks();
  EXPECT_EQ(o.module("A").forward_pre_hooks.size(), 2U);
}

// #3060 (v0.9.0): `numel <= threshold`, `<` before.
TEST(Persistent, ThresholdIsInclusiveFromV0_9_0) {
  const auto persistent = [](std::string_view of_release, int64_t threshold) {
    Settings settings;
    settings.param_persistence_threshold_numel = threshold;
    Offloaded o(of_release, model().layer("A", {{8, 8}, {8}}).layers("B"), settings);
    return names_of((*o).persistent_parameters());
  };
  EXPECT_EQ(persistent("0.8.3", 64), "A.p1");
  EXPECT_EQ(persistent("0.9.0", 64), "A,A.p1,B");
  EXPECT_EQ(persistent("0.9.0", 7), "");
}

// #2089 (v0.7.0): in model order, skipping those that would go past the model's own threshold.
TEST(Persistent, ModelThresholdCapsTheSumFromV0_7_0) {
  const auto persistent = [](std::string_view of_release) {
    Settings settings;
    settings.param_persistence_threshold_numel = 100;
    settings.model_persistence_threshold_numel = 72;
    Offloaded o(of_release, model().layers("AB").layer("C", {{8}}).layer("D", {{8}}), settings);
    return names_of((*o).persistent_parameters());
  };
  EXPECT_EQ(persistent("0.6.7"), "ABCD");
  EXPECT_EQ(persistent("0.7.0"), "AC");
}

// One coordinator to v0.6.1, one a mode to v0.15.3 (#1901), one again from v0.15.4 (#6662).
TEST(Coordinators, OneOrOneAMode) {
  const auto separate = [](std::string_view of_release) {
    Offloaded o(of_release);
    return &(*o).coordinator(true) != &(*o).coordinator(false);
  };
  for (const char* one : {"0.3.12", "0.5.10", "0.6.1", "0.15.4", "0.19.8"})
    EXPECT_FALSE(separate(one)) << one;
  for (const char* two : {"0.6.2", "0.9.3", "0.10.0", "0.15.3"}) EXPECT_TRUE(separate(two)) << two;
}

// Where the registry lives: in each coordinator, on the module (#3462, v0.9.3), one a mode there (#3884, v0.10.0), one
// (#6662, v0.15.4).
TEST(Registries, AreKeptOnTheRootFromV0_9_3) {
  const auto on_module = [](std::string_view of_release) {
    Offloaded o(of_release);
    (*o).coordinator(true);
    (*o).coordinator(false);
    const auto& registries = o.module("").inflight_registries;
    return std::pair(registries[0] != nullptr, registries[1] != nullptr);
  };
  EXPECT_EQ(on_module("0.9.2"), std::pair(false, false));
  EXPECT_EQ(on_module("0.9.3"), std::pair(true, false));
  EXPECT_EQ(on_module("0.10.0"), std::pair(true, true));
  EXPECT_EQ(on_module("0.15.4"), std::pair(true, false));
}

// It is reused if the module has one: it survives a second engine on the same module (eras.md, 5.1).
TEST(Registries, AreSharedByTwoEnginesOnOneModel) {
  Offloaded o("0.19.8");
  (*o).coordinator(true);
  const auto registry = o.module("").inflight_registries[0];
  o.make();
  (void)o.offloads.back()->coordinator(true);
  EXPECT_EQ(o.module("").inflight_registries[0], registry);
}

// eras.md, 4.1: an assert that no public report shows, since v0.19.3.
TEST(Backward, PostHookWithoutAPreHookIsRefusedFromV0_19_3) {
  Offloaded before("0.19.2");
  EXPECT_EQ((*before).post_sub_module_backward(before.module("A")), nullptr);
  Offloaded after("0.19.3");
  const Raised raised = (*after).post_sub_module_backward(after.module("A"));
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->kind, FailureKind::kNoActiveBackward);
  EXPECT_EQ(raised->message(), "AssertionError: active_backward_submodules is empty during backward pass");
}

// #3186 (v0.9.0) to v0.15.3.
TEST(Backward, EvalModeIsRefused) {
  const auto message = [](std::string_view of_release) {
    Offloaded o(of_release);
    o.module("A").training = false;
    const Raised raised = (*o).pre_sub_module_backward(o.module("A"));
    return raised ? raised->message() : "";
  };
  constexpr const char* kText = "AssertionError: backward pass is invalid for module in evaluation mode";
  for (const char* asserts : {"0.9.0", "0.15.2", "0.15.3"}) EXPECT_EQ(message(asserts), kText) << asserts;
  for (const char* passes : {"0.5.10", "0.6.2", "0.8.3", "0.15.4", "0.19.8"})
    EXPECT_EQ(message(passes), "") << passes;
}

TEST(PartitionAll, ForgetsWhoWasActive) {
  Offloaded o("0.15.2");
  ASSERT_EQ((*o).pre_sub_module_forward(o.module("A")), nullptr);
  Param& weight = *o.built.param(1, 0);
  EXPECT_THAT(weight.ds_active_sub_modules.ids(), ElementsAre(1));
  ASSERT_EQ((*o).partition_all_parameters(), nullptr);
  EXPECT_TRUE(weight.ds_active_sub_modules.empty());
  EXPECT_EQ(weight.ds_status, ZeroParamStatus::kNotAvailable);
}

// The call path of a failure names DeepSpeed's functions, outermost first.
TEST(Path, NamesTheFunctionsOnTheWayUp) {
  Offloaded o("0.15.2");
  o.built.param(1, 0)->ds_status = ZeroParamStatus::kInflight;
  const Raised raised = (*o).pre_sub_module_forward(o.module("A"));
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->kind, FailureKind::kNotAvailable);
  EXPECT_THAT(raised->path, ElementsAre("pre_sub_module_forward_function", "fetch_sub_module"));
}

}  // namespace
}  // namespace zero3
