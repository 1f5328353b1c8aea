#include "coordinator/inflight_registry.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class InflightRegistryTest : public testing::Test {
 protected:
  InflightRegistryTest() {
    for (size_t i = 0; i < params_.size(); ++i) params_[i].ds_id = static_cast<int>(i);
  }

  std::array<Param, 100> params_;
  AllGatherHandle handle_;
  AllGatherHandle other_;
  InflightRegistry registry_;
};

TEST_F(InflightRegistryTest, PopGivesTheHandleAndForgetsTheParam) {
  registry_.insert(params_[1], handle_);
  registry_.insert(params_[0], other_);
  EXPECT_EQ(registry_.pop(params_[1]), &handle_);
  EXPECT_EQ(registry_.pop(params_[1]), nullptr);
  EXPECT_FALSE(registry_.contains(params_[1]));
  EXPECT_TRUE(registry_.contains(params_[0]));
}

// A Python dict: "still have inflight params" lists them in the order of insertion, a param re-inserted comes last.
TEST_F(InflightRegistryTest, ParamsComeInTheOrderOfInsertion) {
  for (const size_t i : {5U, 2U, 9U}) registry_.insert(params_[i], handle_);
  registry_.pop(params_[5]);
  registry_.insert(params_[5], handle_);
  EXPECT_THAT(registry_.params(), ElementsAre(&params_[2], &params_[9], &params_[5]));
}

// eras.md, 7.1: a sibling's wait makes a param AVAILABLE and leaves it here.
TEST_F(InflightRegistryTest, StatusIsNotItsBusiness) {
  registry_.insert(params_[0], handle_);
  params_[0].ds_status = ZeroParamStatus::kAvailable;
  EXPECT_TRUE(registry_.contains(params_[0]));
  EXPECT_FALSE(registry_.empty());
}

TEST_F(InflightRegistryTest, ClearedRegistryTakesTheSameParamsAgain) {
  registry_.insert(params_[0], handle_);
  registry_.clear();
  EXPECT_TRUE(registry_.empty());
  EXPECT_THAT(registry_.params(), IsEmpty());
  registry_.insert(params_[0], other_);
  EXPECT_EQ(registry_.pop(params_[0]), &other_);
}

TEST_F(InflightRegistryTest, LongLivedEntrySurvivesMuchTraffic) {
  registry_.insert(params_[0], handle_);
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 1; i < params_.size(); ++i) registry_.insert(params_[i], other_);
    for (size_t i = 1; i < params_.size(); ++i) EXPECT_EQ(registry_.pop(params_[i]), &other_);
  }
  EXPECT_LT(registry_.entries().size(), 2 * params_.size());
  EXPECT_THAT(registry_.params(), ElementsAre(&params_[0]));
  EXPECT_EQ(registry_.pop(params_[0]), &handle_);
}

}  // namespace
}  // namespace zero3
