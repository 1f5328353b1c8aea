// torch's engine on one device runs the ready node with the highest sequence number.
#include "coordinator/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3 {
namespace {

using testing::ElementsAre;

class TapeTest : public testing::Test {
 protected:
  int node(const std::vector<int>& inputs) {
    const int index = tape_.add({});
    for (const int input : inputs) tape_.add_input(input);
    return index;
  }
  std::vector<int> backward(int root) {
    std::vector<int> order;
    const auto run = [&](int index, bool&) {
      order.push_back(index);
      return Raised{};
    };
    const auto accumulate = [&](Param& param, bool) {
      gradients_.emplace_back(order.back(), &param);
      return Raised{};
    };
    EXPECT_EQ(tape_.backward(root, run, accumulate), nullptr);
    return order;
  }

  static Raised ignore(Param&, bool) { return nullptr; }

  Tape tape_;
  std::vector<std::pair<int, Param*>> gradients_;  // accumulated after which node
};

TEST_F(TapeTest, ChainRunsBackwards) {
  node({});
  node({0});
  node({1});
  EXPECT_THAT(backward(2), ElementsAre(2, 1, 0));
}

TEST_F(TapeTest, NodeWaitsForAllItsUsers) {
  node({});      // 0, used by 1 and 3
  node({0});     // 1
  node({1});     // 2
  node({0});     // 3
  node({2, 3});  // 4
  EXPECT_THAT(backward(4), ElementsAre(4, 3, 2, 1, 0));
}

TEST_F(TapeTest, LaterBranchRunsFirst) {
  node({});
  node({0});     // 1: early branch
  node({0});     // 2: late branch
  node({2});     // 3
  node({1, 3});  // 4
  EXPECT_THAT(backward(4), ElementsAre(4, 3, 2, 1, 0));
}

TEST_F(TapeTest, UsersOutsideThisPassDoNotCount) {
  node({});
  node({0});
  node({0});  // a second loss, not asked for
  EXPECT_THAT(backward(1), ElementsAre(1, 0));
}

// A value used twice by one node, as x * x is.
TEST_F(TapeTest, RepeatedInputRunsOnce) {
  node({});
  node({0, 0});
  EXPECT_THAT(backward(1), ElementsAre(1, 0));
}

TEST_F(TapeTest, FailureEndsThePass) {
  node({});
  node({0});
  node({1});
  std::vector<int> order;
  const auto run = [&](int index, bool&) {
    order.push_back(index);
    return index == 1 ? raise(FailureKind::kInternal, "RuntimeError", "here") : nullptr;
  };
  const Raised raised = tape_.backward(2, run, ignore);
  ASSERT_NE(raised, nullptr);
  EXPECT_THAT(order, ElementsAre(2, 1));
}

// Activation checkpointing adds nodes, and runs a pass of its own, while a pass runs.
TEST_F(TapeTest, NodesMayBeAddedAndRunMeanwhile) {
  node({});
  node({0});
  std::vector<int> order;
  const auto run_inner = [&](int index, bool&) {
    order.push_back(index);
    return Raised{};
  };
  const auto run = [&](int index, bool&) {
    order.push_back(index);
    if (index != 1) return Raised{};
    for (int i = 0; i < 100; ++i) node(i == 0 ? std::vector<int>{} : std::vector<int>{1 + i});
    return tape_.backward(101, run_inner, ignore);
  };
  EXPECT_EQ(tape_.backward(1, run, ignore), nullptr);
  ASSERT_EQ(order.size(), 102U);
  EXPECT_EQ(order[1], 101);
  EXPECT_EQ(order.back(), 0);
}

// torch accumulates a leaf's gradient when all that uses the leaf in this pass has run.
TEST_F(TapeTest, GradientOfASharedWeightIsAccumulatedOnce) {
  Param shared;
  shared.ds_id = 0;
  Param own;
  own.ds_id = 1;
  node({});
  tape_.add_weight(&shared);
  node({0});
  tape_.add_weight(&own);
  node({1});
  tape_.add_weight(&shared);
  backward(2);
  EXPECT_THAT(gradients_, ElementsAre(std::pair(1, &own), std::pair(0, &shared)));
}

// A reentrant region that detaches its input hands on no gradient; what comes after it runs, and so do the hooks of its
// params, unless another node hands one on.
TEST_F(TapeTest, NodesRunWithoutAGradient) {
  std::vector<Param> params(3);
  for (int i = 0; i < 3; ++i) params[static_cast<size_t>(i)].ds_id = i;
  node({});
  tape_.add_weight(&params[0]);
  node({0});
  tape_.add_weight(&params[1]);
  const int silent = node({1});
  tape_.add_weight(&params[2]);
  const int other = node({0});
  node({silent, other});
  std::vector<std::pair<int, bool>> received;
  std::vector<std::pair<int, bool>> accumulated;
  const auto run = [&](int index, bool& gradient) {
    received.emplace_back(index, gradient);
    if (index == silent) gradient = false;
    return Raised{};
  };
  const auto accumulate = [&](Param& param, bool gradient) {
    accumulated.emplace_back(param.ds_id, gradient);
    return Raised{};
  };
  EXPECT_EQ(tape_.backward(4, run, accumulate), nullptr);
  EXPECT_THAT(received, ElementsAre(std::pair(4, true), std::pair(3, true), std::pair(2, true),
                                    std::pair(1, false), std::pair(0, true)));
  EXPECT_THAT(accumulated, ElementsAre(std::pair(2, false), std::pair(1, false), std::pair(0, true)));
}

TEST_F(TapeTest, InputsAndWeightsStayWithTheirNode) {
  Param a;
  Param b;
  node({});
  tape_.add_weight(&a);
  node({0});
  node({0, 1});
  tape_.add_weight(&a);
  tape_.add_weight(&b);
  EXPECT_THAT(tape_.weights(0), ElementsAre(&a));
  EXPECT_TRUE(tape_.weights(1).empty());
  EXPECT_THAT(tape_.weights(2), ElementsAre(&a, &b));
  EXPECT_THAT(tape_.inputs(2), ElementsAre(0, 1));
  tape_.clear();
  EXPECT_EQ(node({}), 0);
  EXPECT_TRUE(tape_.weights(0).empty());
}

}  // namespace
}  // namespace zero3
