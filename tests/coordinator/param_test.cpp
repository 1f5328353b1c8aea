#include "coordinator/param.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3 {
namespace {

using testing::ElementsAre;

// ds_active_sub_modules is a set of module ids from v0.6.0 on.
TEST(ActiveSubModules, AnIdCountsOnce) {
  ActiveSubModules active;
  active.add(3);
  active.add(1);
  active.add(3);
  EXPECT_THAT(active.ids(), ElementsAre(1, 3));
  active.discard(3);
  EXPECT_THAT(active.ids(), ElementsAre(1));
}

TEST(ActiveSubModules, DiscardingAnAbsentIdDoesNothing) {
  ActiveSubModules active;
  active.discard(7);
  EXPECT_TRUE(active.empty());
}

// partition_parameters.py: the shards are equal, the last one padded.
TEST(Param, ShardsAreRoundedUp) {
  Param param;
  param.ds_numel = 32768;
  EXPECT_EQ(param.partition_numel(1), 32768);
  EXPECT_EQ(param.partition_numel(3), 10923);  // DeepSpeed#5648's adapters on three ranks
  param.ds_numel = 0;
  EXPECT_EQ(param.partition_numel(8), 0);
}

TEST(Param, StatusesAreDeepSpeedsNames) {
  EXPECT_EQ(status_text(ZeroParamStatus::kNotAvailable), "NOT_AVAILABLE");
  EXPECT_EQ(status_text(ZeroParamStatus::kInflight), "INFLIGHT");
  EXPECT_EQ(status_text(ZeroParamStatus::kAvailable), "AVAILABLE");
}

}  // namespace
}  // namespace zero3
