// How a param shows in error texts. The dicts are those of public reports (reports.md) and of observed runs.
#include "coordinator/summary.h"

#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::release;

Param adapter() {
  Param param;
  param.ds_id = 292;
  param.debug_name = "layers.0.lora_A.weight";
  param.ds_shape = {4096, 8};
  param.ds_numel = 32768;
  param.requires_grad = false;
  param.ds_status = ZeroParamStatus::kAvailable;
  param.data_is_full = true;
  return param;
}

// DeepSpeed#5648 on v0.14.3, three ranks.
TEST(DsSummary, IsTheDictThatUsersPaste) {
  EXPECT_EQ(
      ds_summary(adapter(), behaviour_of(release("0.14.3")), 3),
      "{'id': 292, 'status': 'AVAILABLE', 'numel': 32768, 'ds_numel': 32768, 'shape': (4096, 8), 'ds_shape': "
      "(4096, 8), 'requires_grad': False, 'grad_shape': None, 'persist': False, 'active_sub_modules': set(), "
      "'ds_tensor.shape': torch.Size([10923])}");
}

// #2964 added the shard's shape in v0.9.2; DeepSpeed#3068 on 0.8.x shows the dict before it.
TEST(DsSummary, HasNoPartitionShapeBefore_0_9_2) {
  Param embedding;
  embedding.ds_id = 786;
  embedding.ds_shape = {50265, 768};
  embedding.ds_numel = 38603520;
  embedding.requires_grad = false;
  embedding.ds_status = ZeroParamStatus::kInflight;
  embedding.data_is_full = true;
  embedding.ds_active_sub_modules.add(3);
  EXPECT_EQ(
      ds_summary(embedding, behaviour_of(release("0.8.3")), 1),
      "{'id': 786, 'status': 'INFLIGHT', 'numel': 38603520, 'ds_numel': 38603520, 'shape': (50265, 768), "
      "'ds_shape': (50265, 768), 'requires_grad': False, 'grad_shape': None, 'persist': False, "
      "'active_sub_modules': {3}}");
  EXPECT_EQ(ds_summary(adapter(), behaviour_of(release("0.9.1")), 3).find("ds_tensor"), std::string::npos);
  EXPECT_NE(ds_summary(adapter(), behaviour_of(release("0.9.2")), 3).find("ds_tensor"), std::string::npos);
}

TEST(DsSummary, PartitionedParamHasAnEmptyShape) {
  Param param = adapter();
  param.data_is_full = false;
  const std::string text = ds_summary(param, behaviour_of(release("0.15.2")), 1);
  EXPECT_NE(text.find("'numel': 0, 'ds_numel': 32768, 'shape': (0,), 'ds_shape': (4096, 8)"),
            std::string::npos);
}

TEST(DsSummary, SeveralActiveModulesAreASet) {
  Param param = adapter();
  param.ds_active_sub_modules.add(12);
  param.ds_active_sub_modules.add(7);
  EXPECT_NE(ds_summary(param, behaviour_of(release("0.15.2")), 1).find("'active_sub_modules': {7, 12}"),
            std::string::npos);
}

// ds_summary(use_debug_name=True), the ids of tracing errors from v0.6.4.
TEST(DsSummary, DebugNameStandsForTheId) {
  EXPECT_TRUE(ds_summary(adapter(), behaviour_of(release("0.6.4")), 1, true)
                  .starts_with("{'id': 'name=layers.0.lora_A.weight id=292', 'status': 'AVAILABLE'"));
}

TEST(ParameterRepr, ShowsFullValuesOrNone) {
  Param param = adapter();
  EXPECT_EQ(parameter_repr(param), "Parameter containing:\ntensor([[...]])");
  param.requires_grad = true;
  EXPECT_EQ(parameter_repr(param), "Parameter containing:\ntensor([[...]], requires_grad=True)");
  param.data_is_full = false;
  EXPECT_EQ(parameter_repr(param), "Parameter containing:\ntensor([], requires_grad=True)");
}

TEST(Python, ListsAndTuplesAsPythonPrintsThem) {
  const std::vector<int64_t> none;
  const std::vector<int64_t> one = {4};
  const std::vector<int64_t> two = {4, -1};
  EXPECT_EQ(python_list(none), "[]");
  EXPECT_EQ(python_list(two), "[4, -1]");
  EXPECT_EQ(python_tuple(none), "()");
  EXPECT_EQ(python_tuple(one), "(4,)");
  EXPECT_EQ(python_tuple(two), "(4, -1)");
}

}  // namespace
}  // namespace zero3
