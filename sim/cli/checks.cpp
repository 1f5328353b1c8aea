#include "sim/cli/checks.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace zero3::sim::cli {
namespace {

std::string check_filled(std::string& word) { return word.empty() ? "must not be empty" : ""; }

std::string check_seed(std::string& word) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seed);
  const bool whole = error == std::errc{} && end == word.data() + word.size() && !word.empty();
  return whole ? "" : "'" + word + "' is not a whole number from 0 to 2^64 - 1";
}

std::string check_number(std::string& word) {
  return std::isnan(std::strtod(word.c_str(), nullptr)) ? "'" + word + "' is not a number" : "";
}

}  // namespace

const CLI::Validator& filled() {
  static const CLI::Validator kFilled(check_filled, "");
  return kFilled;
}

const CLI::Validator& seed_number() {
  static const CLI::Validator kSeed(check_seed, "");
  return kSeed;
}

const CLI::Validator& a_number() {
  static const CLI::Validator kNumber(check_number, "");
  return kNumber;
}

}  // namespace zero3::sim::cli
