// Holds the repository to the rules of the house, and the rules to small trees that break them.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace zero3::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

bool is_read(const std::filesystem::path& path) {
  const std::string suffix = path.extension().string();
  return suffix == ".h" || suffix == ".cpp" || suffix == ".md" || *path.begin() == "scenarios" ||
         *path.begin() == "docs" || path.filename() == "CMakeLists.txt";
}

Tree repository() {
  Tree tree;
  const auto read = [&](const std::filesystem::path& path) {
    if (!is_read(path)) return;
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    tree[path.generic_string()] = text.str();
  };
  for (const char* file : {"CMakeLists.txt", "README.md", "CONTRIBUTING.md"}) read(file);
  for (const char* folder : {"coordinator", "sim", "tests", "bench", "docs", "scenarios"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) read(entry.path());
    }
  }
  return tree;
}

void expect_none(const Findings& findings) {
  std::string list;
  for (const std::string& finding : findings) list += finding + "\n";
  EXPECT_TRUE(findings.empty()) << list;
}

std::string lines(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "  f();\n";
  return text;
}

TEST(Repository, KeepsLinesFunctionsAndFilesShort) { expect_none(too_long(repository())); }
TEST(Repository, HasNoDeadFiles) { expect_none(dead_files(repository())); }
TEST(Repository, KeepsItsLayers) { expect_none(crossed_layers(repository())); }
TEST(Repository, ComparesReleasesInOnePlace) { expect_none(stray_versions(repository())); }
TEST(Repository, DefinesEachTypeOnce) { expect_none(repeated_types(repository())); }
TEST(Repository, UsesNoBannedWords) { expect_none(banned_words(repository())); }

TEST(TooLong, CountsColumnsNotBytes) {
  std::string umlauts;
  for (int i = 0; i < 120; ++i) umlauts += "ä";
  EXPECT_THAT(too_long({{"sim/a.h", "\n" + std::string(121, 'a')}, {"sim/b.h", umlauts}}),
              ElementsAre("sim/a.h:2: line over 120 columns"));
}

TEST(TooLong, CountsSignatureAndBracesOfAFunction) {
  EXPECT_THAT(too_long({{"sim/a.cpp", "void fits() {\n" + lines(68) + "}\n"}}), IsEmpty());
  EXPECT_THAT(too_long({{"sim/a.cpp", "namespace n {\n\nvoid f() {\n" + lines(69) + "}\n"}}),
              ElementsAre("sim/a.cpp:3: function over 70 lines"));
}

TEST(TooLong, FindsEveryFormOfFunction) {
  const std::string body = " {\n" + lines(69) + "}\n";
  for (const std::string signature :
       {"A::A(int a) : a_{a}, b_(2)", "template <class T>\nvoid f(T a = {})",
        "bool operator==(const A& a) const", "auto f(int a) -> std::vector<int>",
        "struct A {\n public:\n  void f() const noexcept",
        "#include <map>\nenum class A : int { kA };\nconst char* f(std::string s = \"{\")"}) {
    EXPECT_THAT(too_long({{"sim/a.cpp", signature + body}}), SizeIs(1)) << signature;
  }
}

TEST(TooLong, SparesTablesAndTests) {
  const std::string table = "constexpr A kTable[] = {\n" + lines(100) + "};\n";
  EXPECT_THAT(too_long({{"sim/a.cpp", table}}), IsEmpty());
  EXPECT_THAT(too_long({{"tests/a_test.cpp", "TEST(A, B) {\n" + lines(500) + "}\n"}}), IsEmpty());
}

TEST(TooLong, CountsLinesOfAFile) {
  EXPECT_THAT(too_long({{"sim/a.h", lines(450)}, {"sim/b.h", lines(451)}}),
              ElementsAre("sim/b.h:451: file over 450 lines"));
}

TEST(DeadFiles, FindsHeadersThatNobodyIncludes) {
  EXPECT_THAT(dead_files({{"sim/a.cpp", "#include \"sim/a.h\"\n"}, {"sim/a.h", ""}, {"sim/b.h", ""}}),
              ElementsAre("sim/b.h:1: included by no file"));
}

TEST(DeadFiles, FindsSourcesThatNoTargetTakes) {
  EXPECT_THAT(dead_files({{"CMakeLists.txt", "file(GLOB fakes tests/fake/*.cpp)"},
                          {"old/a.cpp", ""},
                          {"tests/fake/a.cpp", ""},
                          {"sim/a.cpp", ""},
                          {"tests/CMakeLists.txt", "zero3_tests(sim)"},
                          {"tests/si/a_test.cpp", ""},
                          {"tests/sim/a_test.cpp", ""}}),
              ElementsAre("old/a.cpp:1: in no target", "tests/si/a_test.cpp:1: in no target"));
}

TEST(DeadFiles, FindsDocumentsThatNobodyNames) {
  EXPECT_THAT(dead_files({{"README.md", "[a](docs/a.md)"}, {"docs/a.md", ""}, {"docs/b.md", "b.md"}}),
              ElementsAre("docs/b.md:1: linked from no document"));
}

TEST(DeadFiles, FindsScenariosThatNoGlobTakes) {
  EXPECT_THAT(dead_files({{"scenarios/a/a.yaml", ""}, {"scenarios/a/b.yml", ""}}), SizeIs(1));
}

TEST(CrossedLayers, FindsIncludesAgainstTheArrows) {
  EXPECT_THAT(
      crossed_layers({{"coordinator/a.h", "#include <vector>\n#include \"coordinator/b.h\"\n"},
                      {"coordinator/b.h", "#include \"sim/a.h\"\n#include <fmt/format.h>\n#include <a.h>\n"},
                      {"sim/a.h", "#include \"coordinator/b.h\"\n#include \"a.h\"\n"},
                      {"tests/sim/a_test.cpp", "#include \"../a.h\"\n"}}),
      SizeIs(5));
}

TEST(StrayVersions, FindsNumbersAndComparisons) {
  for (const std::string code :
       {"if (release >= kCured) {", "if (engine.release() < other) {", "if (release.minor == 15) {",
        "constexpr Release kCured{0, 15, 3};", "f(Release{0, 15, 3});", "f(Release(0, 15, 3));",
        "f(\"0.15.3\");", "f(\"v0.15.3\");"}) {
    EXPECT_THAT(stray_versions({{"sim/a.cpp", code}}), SizeIs(1)) << code;
    EXPECT_THAT(stray_versions({{"coordinator/behaviour.cpp", code}, {"coordinator/release.h", code}}),
                IsEmpty());
    EXPECT_THAT(stray_versions({{"tests/sim/a_test.cpp", code}}), IsEmpty());
  }
}

TEST(StrayVersions, SparesTextsAndComments) {
  EXPECT_THAT(stray_versions({{"sim/a.cpp", "f(\"cured by 0.15.3\");  // release >= 0.15.3\n"}}), IsEmpty());
}

// Each linked program keeps one of them, and crashes or not by the order of its objects.
TEST(RepeatedTypes, FindsOneNameInTwoFiles) {
  const auto in = [](const std::string& space, const std::string& code) {
    return "namespace " + space + " {\n" + code + "\n}  // namespace " + space + "\n";
  };
  for (const std::string definition :
       {"struct A {\n};", "class A final : public B {\n};", "enum class A { kB };"}) {
    EXPECT_THAT(
        repeated_types({{"sim/a/a.h", in("n", "struct A {\n};")}, {"sim/b/a.h", in("n", definition)}}),
        ElementsAre("sim/b/a.h:2: n::A is defined in sim/a/a.h too"))
        << definition;
  }
  EXPECT_THAT(repeated_types({{"sim/a.h", in("n", "struct A {\n  struct B {\n  };\n};\nstruct B;")},
                              {"sim/b.h", in("n", "struct B {\n};\nstruct A;")},
                              {"sim/c.h", in("m", "struct A {\n};\n// struct B {")},
                              {"sim/d.cpp", in("n", "namespace {\nstruct A {\n};\n}  // namespace")}}),
              IsEmpty());
}

TEST(BannedWords, FindsWhatReachesOutside) {
  for (const std::string code : {"#include <thread>", "#include <chrono>", "#include <iostream>",
                                 "std::printf(\"\");", "std::getenv(\"A\");", "rand();"}) {
    EXPECT_THAT(banned_words({{"coordinator/a.cpp", code}}), SizeIs(1)) << code;
    EXPECT_THAT(banned_words({{"sim/a.cpp", code}}), IsEmpty()) << code;
  }
}

TEST(BannedWords, FindsWhatChangesBytes) {
  for (const std::string code :
       {"std::unordered_map<int, int> m;", "std::map<const Param*, int> m;", "std::set<zero3::Param*> s;",
        "std::hash<int> h;", "std::uniform_int_distribution<int> d;", "f(__DATE__);"}) {
    EXPECT_THAT(banned_words({{"coordinator/a.cpp", code}, {"sim/a.cpp", code}}), SizeIs(2)) << code;
  }
  EXPECT_THAT(banned_words({{"sim/a.cpp", "std::map<int, const Param*> m;  // not unordered_map"}}),
              IsEmpty());
}

TEST(BannedWords, FindsUnfinishedWorkInComments) {
  EXPECT_THAT(banned_words({{"docs/a.md",
                             "TO"
                             "DO: later"},
                            {"sim/a.cpp",
                             "// FIX"
                             "ME"}}),
              SizeIs(2));
}

TEST(WithoutComments, KnowsLiterals) {
  EXPECT_EQ(without_comments("f('\"'); // a\ng(1'000, \"//\"); /*\n*/ R\"x()\"//)x\"", Literals::kKeep),
            "f('\"');     \ng(1'000, \"//\");   \n   R\"x()\"//)x\"");
  EXPECT_EQ(without_comments("f(\"{\\\"\", '}');", Literals::kBlank), "f(     ,    );");
}

}  // namespace
}  // namespace zero3::tidy
