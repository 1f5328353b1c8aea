#include "tests/tidy/rules.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <string_view>

#include "tests/tidy/source_text.h"

namespace zero3::tidy {
namespace {

constexpr size_t kMaxLineColumns = 120;
constexpr size_t kMaxFileLines = 450;
constexpr int kMaxFunctionLines = 70;

std::string finding(const std::string& path, size_t line, const std::string& what) {
  return path + ":" + std::to_string(line) + ": " + what;
}

bool is_under(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && path.substr(folder.size()).starts_with('/');
}

bool is_header(std::string_view path) { return path.ends_with(".h"); }
bool is_code(std::string_view path) { return is_header(path) || path.ends_with(".cpp"); }

// Characters, not bytes: UTF-8's continuation bytes do not count.
size_t columns(std::string_view line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

// A pattern that lines of some files must not contain. Comments do not count, but for one that holds the waiver.
struct Ban {
  std::regex paths;
  std::regex pattern;
  std::string why;
  std::optional<std::string> waiver = {};
};

Findings broken(const Tree& tree, std::span<const Ban> bans) {
  Findings findings;
  for (const auto& [path, text] : tree) {
    if (!is_code(path)) continue;
    const std::vector<std::string> lines = lines_of(text);
    const std::vector<std::string> code = lines_of(without_comments(text, Literals::kKeep));
    for (const Ban& ban : bans) {
      if (!std::regex_search(path, ban.paths)) continue;
      for (size_t i = 0; i < lines.size(); ++i) {
        const bool waived = ban.waiver && lines[i].find(*ban.waiver) != std::string::npos;
        if (!waived && std::regex_search(code[i], ban.pattern))
          findings.push_back(finding(path, i + 1, ban.why));
      }
    }
  }
  return findings;
}

std::set<std::string> included_files(const Tree& tree) {
  static const std::regex kInclude(R"~(#include "([^"]+)")~");
  std::set<std::string> included;
  for (const auto& [path, text] : tree) {
    if (!is_code(path)) continue;
    for (std::sregex_iterator match(text.begin(), text.end(), kInclude), end; match != end; ++match) {
      included.insert((*match)[1]);
    }
  }
  return included;
}

// Whether a CMakeLists.txt makes a target of the folder that the source lies in.
bool is_in_target(const Tree& tree, const std::string& path) {
  for (const char* folder : {"coordinator", "sim", "bench"}) {
    if (is_under(path, folder)) return true;
  }
  if (!is_under(path, "tests")) return false;
  const size_t start = std::string_view("tests/").size();
  const std::string folder = path.substr(start, path.find('/', start) - start);
  const auto root = tree.find("CMakeLists.txt");
  if (root != tree.end() && root->second.find("tests/" + folder + "/*.cpp") != std::string::npos) return true;
  const auto lists = tree.find("tests/CMakeLists.txt");
  return lists != tree.end() &&
         std::regex_search(lists->second, std::regex("zero3_tests\\(" + folder + "[ )]"));
}

// Whether a markdown file other than itself names the document.
bool is_linked(const Tree& tree, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return std::ranges::any_of(tree, [&](const auto& file) {
    return file.first != path && file.first.ends_with(".md") && file.second.find(name) != std::string::npos;
  });
}

// The types that a file defines outside of other types and of unnamed namespaces, whole names by line. Relies on the
// comments that clang-tidy demands behind a namespace's brace.
std::map<size_t, std::string> types_of(const std::string& text) {
  static const std::regex kOpens(R"(^namespace ([\w:]*) ?\{$)");
  static const std::regex kCloses(R"(^\}  // namespace)");
  static const std::regex kDefines(R"(^(class|struct|union|enum|enum class) (\w+)( final)?( : .*)? \{)");
  std::map<size_t, std::string> types;
  std::vector<std::string> namespaces;
  const std::vector<std::string> lines = lines_of(text);
  std::smatch match;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (std::regex_search(lines[i], match, kOpens)) {
      namespaces.push_back(match[1]);
    } else if (std::regex_search(lines[i], kCloses) && !namespaces.empty()) {
      namespaces.pop_back();
    } else if (std::regex_search(lines[i], match, kDefines) &&
               std::ranges::find(namespaces, "") == namespaces.end()) {
      std::string name;
      for (const std::string& space : namespaces) name += space + "::";
      types[i + 1] = name + match[2].str();
    }
  }
  return types;
}

}  // namespace

Findings too_long(const Tree& tree) {
  Findings findings;
  for (const auto& [path, text] : tree) {
    if (!is_code(path)) continue;
    const std::vector<std::string> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (columns(lines[i]) > kMaxLineColumns)
        findings.push_back(finding(path, i + 1, "line over 120 columns"));
    }
    if (is_under(path, "tests")) continue;
    if (lines.size() > kMaxFileLines) findings.push_back(finding(path, lines.size(), "file over 450 lines"));
    for (const Function& function : functions_of(text)) {
      if (function.last_line - function.first_line + 1 > kMaxFunctionLines) {
        findings.push_back(finding(path, static_cast<size_t>(function.first_line), "function over 70 lines"));
      }
    }
  }
  return findings;
}

Findings dead_files(const Tree& tree) {
  const std::set<std::string> included = included_files(tree);
  Findings findings;
  for (const auto& [path, text] : tree) {
    if (is_header(path) && !included.contains(path))
      findings.push_back(finding(path, 1, "included by no file"));
    if (path.ends_with(".cpp") && !is_in_target(tree, path))
      findings.push_back(finding(path, 1, "in no target"));
    if (is_under(path, "docs") && !is_linked(tree, path)) {
      findings.push_back(finding(path, 1, "linked from no document"));
    }
    if (is_under(path, "scenarios") && !path.ends_with(".yaml")) {
      findings.push_back(finding(path, 1, "not a scenario: tests and lists take *.yaml"));
    }
  }
  return findings;
}

Findings crossed_layers(const Tree& tree) {
  static const Ban kBans[] = {
      {std::regex("^coordinator/"), std::regex(R"(^#include "(?!coordinator/))"),
       "coordinator/ includes coordinator/ and the standard library alone"},
      {std::regex("^coordinator/"), std::regex(R"(^#include <[^>]*[./])"),
       "coordinator/ includes coordinator/ and the standard library alone"},
      {std::regex("^sim/"), std::regex(R"(^#include "(?!coordinator/|sim/))"),
       "sim/ includes coordinator/ and sim/, from the repository's root"},
      {std::regex("^(tests|bench)/"), std::regex(R"(^#include "(?!coordinator/|sim/|tests/|bench/))"),
       "includes are written from the repository's root"},
  };
  return broken(tree, kBans);
}

Findings stray_versions(const Tree& tree) {
  static const std::regex kElsewhere("^(coordinator/(?!release|behaviour)|sim/)");
  static const Ban kBans[] = {
      {kElsewhere, std::regex(R"(\bRelease\s*\w*[{(]\s*\d)"), "a release by number: ask a flag of Behaviour"},
      {kElsewhere, std::regex(R"("v?\d+\.\d+\.\d+")"), "a release by number: ask a flag of Behaviour"},
      {kElsewhere, std::regex(R"(\b(release|version)(\(\))?(\.(major|minor|patch))? (<|<=|>|>=|==|!=) )"),
       "a comparison of releases: ask a flag of Behaviour"},
  };
  return broken(tree, kBans);
}

Findings repeated_types(const Tree& tree) {
  std::map<std::string, std::string> homes;
  Findings findings;
  for (const auto& [path, text] : tree) {
    if (!is_code(path)) continue;
    for (const auto& [line, name] : types_of(text)) {
      const auto [home, is_new] = homes.emplace(name, path);
      if (!is_new) findings.push_back(finding(path, line, name + " is defined in " + home->second + " too"));
    }
  }
  return findings;
}

Findings banned_words(const Tree& tree) {
  static const std::regex kCoordinator("^coordinator/");
  static const std::string kNeverIterated = "// never iterated";
  static const std::regex kProduct("^(coordinator|sim)/");
  static const Ban kBans[] = {
      {kCoordinator,
       std::regex("^#include "
                  "<(atomic|chrono|condition_variable|cstdio|ctime|filesystem|fstream|future|iostream|mutex|"
                  "random|thread)>"),
       "coordinator/ has no threads, clock, files, printing or random numbers"},
      {kCoordinator, std::regex(R"(\b(printf|fprintf|puts|getenv|rand|srand)\()"),
       "coordinator/ has no printing, environment or random numbers"},
      {kProduct, std::regex(R"(\bunordered_(map|set|multimap|multiset)\b)"),
       "unordered iteration reaches outputs: use a sorted container", kNeverIterated},
      {kProduct, std::regex(R"(\bstd::(map|set)<\s*(const\s+)?[\w:]+(\s+const)?\s*\*)"),
       "ordered by address: order by an id", kNeverIterated},
      {kProduct, std::regex(R"(\bstd::(hash|random_device|shuffle|sample|\w+_distribution)\b)"),
       "differs between standard libraries"},
      {kProduct, std::regex(R"(\b__(DATE|TIME|TIMESTAMP)__\b)"), "differs from build to build"},
  };
  Findings findings = broken(tree, kBans);
  static const std::regex kUnfinished(R"(\b(TO)"
                                      R"(DO|FIX)"
                                      R"(ME)\b)");
  for (const auto& [path, text] : tree) {
    const std::vector<std::string> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (std::regex_search(lines[i], kUnfinished))
        findings.push_back(finding(path, i + 1, "unfinished: file an issue"));
    }
  }
  return findings;
}

}  // namespace zero3::tidy
