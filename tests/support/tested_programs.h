// Programs for tests of what is told of many releases: of the short form, and of the library.
#pragma once

#include <optional>
#include <string>

#include "sim/outcome/tested_program.h"
#include "sim/short_form.h"

namespace zero3::sim {

inline TestedProgram short_program(const std::string& program, const std::string& name = "program",
                                   const std::string& path = "") {
  return {.name = name,
          .title = "",
          .path = path,
          .experiment = parse_short_form(program, {}),
          .scenario = nullptr};
}

// `file`: below scenarios/
inline TestedProgram library_program(const std::string& file) {
  return load_programs({"scenarios/" + file}, 0, std::nullopt).front();
}

}  // namespace zero3::sim
