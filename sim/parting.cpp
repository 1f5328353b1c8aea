#include "sim/parting.h"

#include <algorithm>

namespace zero3::sim {
namespace {

bool same_ops(const Statement* a, const Statement* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->ops == b->ops;
}

const Statement* at(const Program& program, size_t index) {
  return index < program.size() ? &program[index] : nullptr;
}

// The first call of the plan that the other plan does not make there; "" if there is none.
std::string first_other_call(const Experiment& experiment, const std::vector<PlannedCall>& own,
                             const std::vector<PlannedCall>& other) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (i < other.size() && own[i] == other[i]) continue;
    if (i < other.size() && own[i].module == other[i].module && !own[i].read && !other[i].read) {
      std::string below = first_other_call(experiment, own[i].children, other[i].children);
      if (!below.empty()) return below;
    }
    return experiment.model.modules[static_cast<size_t>(own[i].module)].name;
  }
  return "";
}

std::string detail(const Experiment& experiment, const Statement& own, const Statement& other) {
  for (size_t i = 0; i < own.ops.size() && i < other.ops.size(); ++i) {
    if (own.ops[i] == other.ops[i]) continue;
    return first_other_call(experiment, own.ops[i].plan, other.ops[i].plan);
  }
  return "";
}

class PartingFinder {
 public:
  PartingFinder(const Experiment& experiment, size_t statement)
      : experiment_(experiment), programs_(experiment.rank_programs) {
    parting_.statement = statement;
  }

  Parting find() {
    group();
    for (Branch& branch : parting_.branches) {
      const Statement* own = of(branch);
      if (own == nullptr) continue;
      branch.statement = own->text;
      const Branch& other = parting_.branches[&branch == &parting_.branches.front() ? 1 : 0];
      if (of(other) != nullptr) branch.detail = detail(experiment_, *own, *of(other));
    }
    decide();
    return std::move(parting_);
  }

 private:
  const Statement* of(const Branch& branch) const {
    return at(programs_[static_cast<size_t>(branch.ranks.front())], parting_.statement);
  }

  void group() {
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      const Statement* own = at(programs_[rank], parting_.statement);
      const auto like = std::ranges::find_if(parting_.branches,
                                             [&](const Branch& branch) { return same_ops(of(branch), own); });
      if (like != parting_.branches.end()) {
        like->ranks.push_back(static_cast<int>(rank));
      } else {
        parting_.branches.push_back({.ranks = {static_cast<int>(rank)}, .statement = "", .detail = ""});
      }
    }
  }

  // All ranks but those of the branch.
  void leave_all_but(const Branch& common, const std::string& why) {
    for (const Branch& branch : parting_.branches) {
      if (&branch != &common)
        parting_.started.insert(parting_.started.end(), branch.ranks.begin(), branch.ranks.end());
    }
    std::ranges::sort(parting_.started);
    parting_.why = why;
  }

  // Whether its first operation that the others do not do came before, after the same operation as here.
  bool follows_what_was(const Branch& branch, size_t parted) const {
    const std::vector<const Op*> ops = flat(branch);
    if (parted == 0 || parted >= ops.size()) return false;
    for (size_t i = 1; i < parted; ++i) {
      if (*ops[i - 1] == *ops[parted - 1] && *ops[i] == *ops[parted]) return true;
    }
    return false;
  }

  std::vector<const Op*> flat(const Branch& branch) const {
    std::vector<const Op*> ops;
    for (const Statement& statement : programs_[static_cast<size_t>(branch.ranks.front())]) {
      for (const Op& op : statement.ops) ops.push_back(&op);
    }
    return ops;
  }

  // Whether what `branch` does here is still to come on `other`.
  bool comes_later(const Branch& branch, const Branch& other) const {
    const Program& program = programs_[static_cast<size_t>(other.ranks.front())];
    for (size_t i = parting_.statement + 1; i < program.size(); ++i) {
      if (same_ops(&program[i], of(branch))) return true;
    }
    return false;
  }

  // How many operations all branches share.
  size_t shared_ops() const {
    const std::vector<const Op*> first = flat(parting_.branches.front());
    size_t shared = first.size();
    for (const Branch& branch : parting_.branches) {
      const std::vector<const Op*> ops = flat(branch);
      size_t i = 0;
      while (i < shared && i < ops.size() && *ops[i] == *first[i]) ++i;
      shared = i;
    }
    return shared;
  }

  void decide() {
    const auto& branches = parting_.branches;
    const auto most = std::ranges::max_element(branches, {}, [](const Branch& b) { return b.ranks.size(); });
    const auto as_many = std::ranges::count_if(
        branches, [&](const Branch& branch) { return branch.ranks.size() == most->ranks.size(); });
    if (as_many == 1) return leave_all_but(*most, "most ranks do otherwise");
    for (const Branch& branch : branches) {
      if (of(branch) == nullptr) return leave(branch, "its program ends first");
    }
    const size_t parted = shared_ops();
    std::vector<const Branch*> known;
    for (const Branch& branch : branches) {
      if (follows_what_was(branch, parted)) known.push_back(&branch);
    }
    if (known.size() == 1) return leave_all_but(*known.front(), "the others do what came there before");
    for (const Branch& branch : branches) {
      const bool others_skip = std::ranges::all_of(branches, [&](const Branch& other) {
        return &other == &branch || (comes_later(other, branch) && !comes_later(branch, other));
      });
      if (others_skip) return leave(branch, "the others go on without that");
    }
    leave_all_but(branches.front(),
                  "as many ranks do either: held against rank 0, as DeepSpeed's own check does");
  }

  void leave(const Branch& branch, const std::string& why) {
    parting_.started = branch.ranks;
    parting_.why = why;
  }

  const Experiment& experiment_;
  const std::vector<Program>& programs_;
  Parting parting_;
};

}  // namespace

std::optional<Parting> find_parting(const Experiment& experiment) {
  const std::vector<Program>& programs = experiment.rank_programs;
  size_t longest = 0;
  for (const Program& program : programs) longest = std::max(longest, program.size());
  for (size_t i = 0; i < longest; ++i) {
    const bool alike = std::ranges::all_of(
        programs, [&](const Program& one) { return same_ops(at(one, i), at(programs.front(), i)); });
    if (!alike) return PartingFinder(experiment, i).find();
  }
  return std::nullopt;
}

}  // namespace zero3::sim
