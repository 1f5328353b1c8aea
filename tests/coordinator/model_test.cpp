#include "coordinator/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::model;
using test::ModelBuilder;
using test::names_of;
using testing::ElementsAre;

std::vector<int> ids_of(std::span<Param* const> params) {
  std::vector<int> ids;
  for (const Param* param : params) ids.push_back(param->ds_id);
  return ids;
}

// zero.Init converts model.parameters() in order, one counter for the process.
TEST(Process, ParamIdsAreHandedOutInModelOrder) {
  const ModelBuilder builder = model().layers("AB").layer("B.c").layers("D");
  Model built(builder.spec());
  Process process;
  const auto params = parameters_of(built.module(0));
  process.convert(params);
  EXPECT_EQ(names_of(params), "ABcD");
  EXPECT_THAT(ids_of(params), ElementsAre(0, 1, 2, 3));
}

// A second model goes on where the first one ended; converting again changes nothing.
TEST(Process, ParamIdsAreNeverGivenTwice) {
  Model first(model().layers("AB").spec());
  Model second(model().layers("AB").spec());
  Process process;
  process.convert(parameters_of(first.module(0)));
  process.convert(parameters_of(second.module(0)));
  process.convert(parameters_of(first.module(0)));
  EXPECT_THAT(ids_of(parameters_of(first.module(0))), ElementsAre(0, 1));
  EXPECT_THAT(ids_of(parameters_of(second.module(0))), ElementsAre(2, 3));
}

TEST(Model, TiedWeightIsOneParam) {
  Model built(model().layers("AB").activation("C").tied("C", "A").spec());
  EXPECT_EQ(built.module(3).own_params, built.module(1).own_params);
  EXPECT_EQ(parameters_of(built.module(0)).size(), 2U);
}

// torch's modules(), children() and parameters() leave duplicates out.
TEST(Model, SharedModuleIsWalkedOnce) {
  Model built(model().layers("AB").also_below("X", "A").spec());
  EXPECT_EQ(modules_of(built.module(0)).size(), 4U);
  EXPECT_EQ(names_of(parameters_of(built.module(0))), "AB");
}

TEST(Model, NumelIsTheProductOfTheShape) {
  Model built(model().layer("A", {{4, 8, 2}, {3}, {}, {0, 8}}).spec());
  EXPECT_EQ(built.param(1, 0)->ds_numel, 64);
  EXPECT_EQ(built.param(1, 1)->ds_numel, 3);
  EXPECT_EQ(built.param(1, 2)->ds_numel, 1);
  EXPECT_EQ(built.param(1, 3)->ds_numel, 0);
}

TEST(Module, ParamsAreItsOwnThenExternalOnes) {
  Model built(model().layers("AB").uses("B", "A", true).spec());
  EXPECT_EQ(names_of(built.module(2).params()), "BA");
}

// `__iter_params` of a leaf recurses (v0.13.0, #4966).
TEST(Module, LeafHasAllParamsBelowIt) {
  Model built(model().layers("AB").layer("B.c").layer("B.d").leaf("B").spec());
  EXPECT_EQ(names_of(built.module(2).params()), "Bcd");
}

TEST(Module, ExternalParamIsRegisteredOnce) {
  Model built(model().layers("AB").spec());
  built.module(2).register_external(built.param(1, 0));
  built.module(2).register_external(built.param(1, 0));
  EXPECT_EQ(names_of(built.module(2).params()), "BA");
}

// named_parameters() has no duplicates, the external part may repeat an own param (eras.md, 5.1); a set has each once.
TEST(Module, ExternalMayRepeatAnOwnParam) {
  Model built(model().layers("A").spec());
  built.module(1).register_external(built.param(1, 0));
  EXPECT_EQ(names_of(built.module(1).params()), "AA");
  EXPECT_EQ(names_of(built.module(1).param_set()), "A");
}

// eras.md, 5.9: Python sets have no order of their own; ours is by ds_id, or another one fixed by a seed.
TEST(Module, SetOrderFollowsTheSeed) {
  const auto order = [](uint64_t seed) {
    Model built(model().layer("A", {{8}, {8}, {8}, {8}, {8}, {8}}).spec());
    Process process(seed);
    process.convert(parameters_of(built.module(0)));
    built.module(1).params_changed();
    return ids_of(built.module(1).param_set());
  };
  EXPECT_THAT(order(0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(0));
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace zero3
