// Checks of options' words that several commands have, in CLI11's form: "" if the word is fit, else why not.
#pragma once

#include <CLI/CLI.hpp>

namespace zero3::sim::cli {

const CLI::Validator& filled();       // not empty
const CLI::Validator& seed_number();  // a whole number from 0 to 2^64 - 1
const CLI::Validator& a_number();     // not "nan", which lies in every range

constexpr int kMaxRanks = 4096;

}  // namespace zero3::sim::cli
