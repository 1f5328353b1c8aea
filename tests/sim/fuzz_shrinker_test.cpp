// Whatever decides a difference, shrinking finds it and takes the rest away.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "sim/fuzz/generator.h"
#include "sim/fuzz/random_model.h"
#include "sim/fuzz/reduction.h"
#include "sim/fuzz/shrinker.h"

namespace zero3::sim {
namespace {

constexpr size_t kPlenty = 100'000;

FuzzTarget target() { return {.release = *Release::parse("0.15.2")}; }

bool has_op(const Statement& statement, OpKind kind) {
  return std::ranges::any_of(statement.ops, [kind](const Op& op) { return op.kind == kind; });
}

// "A 16-bit save, and later a forward that calls so many modules."
bool saves_then_calls(const Experiment& experiment, size_t calls) {
  bool saved = false;
  for (const Statement& statement : experiment.rank_programs.front()) {
    for (const Op& op : statement.ops) {
      if (op.kind == OpKind::kSave16bit) saved = true;
      if (saved && op.kind == OpKind::kForward && op.plan.size() >= calls) return true;
    }
  }
  return false;
}

TEST(FuzzShrinker, AForwardAfterASaveIsAllThatIsLeft) {
  size_t shrunk_programs = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const Experiment start = generate(1, i, target(), 2);
    if (!saves_then_calls(start, 2)) continue;
    ++shrunk_programs;
    const Shrunk shrunk = shrink(
        start, [](const Experiment& e) { return saves_then_calls(e, 2); }, kPlenty);
    EXPECT_TRUE(shrunk.finished);
    const Experiment& smallest = shrunk.experiment;
    ASSERT_EQ(smallest.rank_programs.size(), 1U) << "program " << i;
    const Program& program = smallest.rank_programs.front();
    ASSERT_EQ(program.size(), 2U) << "program " << i;
    ASSERT_EQ(program[0].ops.size(), 1U);
    ASSERT_EQ(program[1].ops.size(), 1U);
    EXPECT_EQ(program[1].ops[0].plan.size(), 2U);
    EXPECT_LE(smallest.model.modules.size(), 3U);  // the root, and the two called
    EXPECT_EQ(own_params(smallest.model).size(), 1U);
    EXPECT_EQ(smallest.settings.gradient_accumulation_steps, 1);
    EXPECT_EQ(smallest.settings.prefetch_bucket_numel, 100);
    EXPECT_TRUE(smallest.input_requires_grad);
  }
  EXPECT_GT(shrunk_programs, 5U);
}

TEST(FuzzShrinker, ASettingThatDecidesStays) {
  size_t shrunk_programs = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    const Experiment start = generate(2, i, target(), 1);
    const auto decides = [](const Experiment& e) { return e.settings.max_reuse_distance_numel == 128; };
    if (!decides(start)) continue;
    ++shrunk_programs;
    const Experiment smallest = shrink(start, decides, kPlenty).experiment;
    EXPECT_EQ(smallest.settings.max_reuse_distance_numel, 128);
    EXPECT_EQ(smallest.settings.max_live_numel, 1'000'000);
    EXPECT_EQ(smallest.rank_programs.front().size(), 1U);
    EXPECT_LE(smallest.model.modules.size(), 2U) << "the root, and what has the parameter that engines need";
  }
  EXPECT_GT(shrunk_programs, 3U);
}

TEST(FuzzShrinker, ACheckpointedCallOfASharedModuleKeepsBothParents) {
  size_t shrunk_programs = 0;
  const auto shared = [](const Experiment& e) {
    std::vector<int> children;
    for (const ModuleSpec& module : e.model.modules)
      children.insert(children.end(), module.children.begin(), module.children.end());
    std::ranges::sort(children);
    return std::ranges::adjacent_find(children) != children.end();
  };
  for (uint64_t i = 0; i < 60; ++i) {
    const Experiment start = generate(4, i, target(), 1);
    if (!shared(start)) continue;
    ++shrunk_programs;
    const Experiment smallest = shrink(start, shared, kPlenty).experiment;
    EXPECT_LE(smallest.model.modules.size(), 3U) << "root, second parent, shared module; program " << i;
  }
  EXPECT_GT(shrunk_programs, 3U);
}

TEST(FuzzShrinker, ContextsGoWithBothEndsAndProgramsStayWellFormed) {
  for (uint64_t i = 0; i < 40; ++i) {
    const Experiment start = generate(6, i, target(), 2);
    shrink(
        start,
        [](const Experiment& e) {
          EXPECT_TRUE(well_formed(e));
          return std::ranges::any_of(e.rank_programs.front(),
                                     [](const Statement& s) { return has_op(s, OpKind::kBackward); });
        },
        kPlenty);
  }
}

TEST(FuzzShrinker, IsDeterministicAndKeepsToItsLimit) {
  const Experiment start = generate(1, 3, target(), 1);
  const auto decides = [](const Experiment& e) { return e.rank_programs.front().size() >= 2; };
  EXPECT_EQ(shrink(start, decides, kPlenty).experiment, shrink(start, decides, kPlenty).experiment);
  const Shrunk limited = shrink(start, decides, 5);
  EXPECT_EQ(limited.asked, 5U);
  EXPECT_FALSE(limited.finished);
  EXPECT_TRUE(decides(limited.experiment));
}

TEST(FuzzShrinker, WhatNothingDecidesStaysAsItIs) {
  const Experiment start = generate(1, 8, target(), 1);
  EXPECT_EQ(shrink(
                start, [](const Experiment&) { return false; }, kPlenty)
                .experiment,
            start);
}

TEST(FuzzReduction, AModuleThatGoesLeavesItsChildrenToItsParent) {
  Experiment experiment;
  for (const char* name : {"root", "A", "A.b", "c"}) {
    ModuleSpec module;
    module.name = name;
    experiment.model.modules.push_back(module);
  }
  auto& modules = experiment.model.modules;
  modules[0].children = {1, 3};
  modules[0].externals = {{2, 0, false}};
  modules[1].children = {2};
  modules[1].params = {{.name = "p0", .shape = {8}}};
  modules[2].params = {{.name = "p0", .shape = {16}}};
  modules[3].params = {{.name = "p0", .shape = {8}, .tied_module = 1, .tied_param = 0}};
  const PlannedCall b{.module = 2};
  const PlannedCall a{.module = 1, .children = {b}};
  experiment.rank_programs = {{{"f", {}, {{.plan = {a, {.module = 3}}}}}}};
  const Experiment without = with_modules(experiment, {0, 2, 3});
  ASSERT_EQ(without.model.modules.size(), 3U);
  EXPECT_EQ(without.model.modules[0].children, (std::vector<int>{1, 2}));
  EXPECT_EQ(without.model.modules[1].name, "b");
  EXPECT_EQ(without.model.modules[0].externals, (std::vector<ExternalUse>{{1, 0, false}}));
  EXPECT_EQ(without.model.modules[2].params[0].tied_module, -1) << "what it was tied to is gone";
  EXPECT_EQ(without.rank_programs[0][0].ops[0].plan,
            (std::vector<PlannedCall>{{.module = 1}, {.module = 2}}));
}

}  // namespace
}  // namespace zero3::sim
