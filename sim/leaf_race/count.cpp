#include "sim/leaf_race/count.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr uint32_t kBase = 1'000'000'000;
constexpr int kPlaces = 9;
constexpr size_t kShownWhole = 12;

}  // namespace

Count::Count(uint64_t value) {
  for (; value > 0; value /= kBase) digits_.push_back(static_cast<uint32_t>(value % kBase));
}

Count& Count::operator+=(const Count& other) {
  digits_.resize(std::max(digits_.size(), other.digits_.size()));
  uint32_t carry = 0;
  for (size_t i = 0; i < digits_.size(); ++i) {
    const uint32_t sum = digits_[i] + carry + (i < other.digits_.size() ? other.digits_[i] : 0);
    digits_[i] = sum % kBase;
    carry = sum / kBase;
  }
  if (carry > 0) digits_.push_back(carry);
  return *this;
}

std::string Count::text() const {
  if (digits_.empty()) return "0";
  std::string text = std::to_string(digits_.back());
  for (size_t i = digits_.size() - 1; i-- > 0;) text += fmt::format("{:09}", digits_[i]);
  return text;
}

std::string Count::short_text() const {
  std::string whole = text();
  if (whole.size() <= kShownWhole) return whole;
  return fmt::format("{}.{}e+{}", whole[0], whole.substr(1, 2), whole.size() - 1);
}

double Count::leading(int& places) const {
  double value = 0;
  const size_t taken = std::min<size_t>(digits_.size(), 3);
  for (size_t i = 0; i < taken; ++i) value = value * kBase + digits_[digits_.size() - 1 - i];
  places = kPlaces * static_cast<int>(digits_.size() - taken);
  return value;
}

double Count::share_of(const Count& whole) const {
  int places = 0;
  int whole_places = 0;
  double share = leading(places) / whole.leading(whole_places);
  for (; places < whole_places; places += kPlaces) share /= kBase;
  return share;
}

}  // namespace zero3::sim
