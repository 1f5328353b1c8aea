// The jobs in templates/ci: their steps are run as the services run them, in a repository whose DeepSpeed changes.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;

// A repository with a scenario and a recorded run, on v0.15.2.
void make_repository(const Folder& folder) {
  folder.write("zero3sim/skipped.yaml", read_file("scenarios/dynamic-graphs/deepspeed-5828.yaml"));
  folder.write("zero3sim/train.jsonl", read_file("docs/examples/train.v0.15.2.jsonl"));
  folder.write("requirements.txt", "torch\ndeepspeed == 0.15.2  # pinned\n");
  const Outcome written =
      shell("cd " + shell_quoted(folder.path("")) +
            " && zero3sim regress zero3sim-baseline.json --write zero3sim --deepspeed 0.15.2");
  ASSERT_EQ(written.exit_code, 0) << written.errors;
}

std::string assignments(const YAML::Node& variables) {
  std::string text;
  for (const auto& variable : variables) {
    const auto value = variable.second.as<std::string>();
    if (value.find("${{") == std::string::npos)  // what GitHub itself fills in
      text += "export " + variable.first.as<std::string>() + "=" + shell_quoted(value) + "\n";
  }
  return text;
}

// The steps as one script: each `run` in a bash of its own, with what the ones before it wrote to GITHUB_ENV.
std::string github_script() {
  const YAML::Node job = YAML::LoadFile("templates/ci/github-actions.yml")["jobs"]["regress"];
  std::string script =
      "set -a\nRUNNER_TEMP=$PWD\nGITHUB_ENV=$PWD/github-env\nGITHUB_PATH=$PWD/github-path\n: > "
      "$GITHUB_ENV\n" +
      assignments(job["env"]);
  for (const YAML::Node& step : job["steps"]) {
    if (step["run"])
      script += ". ./github-env\nbash -e -c " + shell_quoted(step["run"].as<std::string>()) + " || exit\n";
  }
  return script;
}

// One bash for all lines, which stops at the first that fails.
std::string gitlab_script() {
  const YAML::Node job = YAML::LoadFile("templates/ci/gitlab-ci.yml")["zero3sim"];
  std::string lines = "set -eo pipefail\n" + assignments(job["variables"]);
  for (const char* part : {"before_script", "script"}) {
    for (const YAML::Node& line : job[part]) lines += line.as<std::string>() + "\n";
  }
  return "bash -c " + shell_quoted(lines);
}

void expect_job_tells_of_an_upgrade(const std::string& script) {
  const Folder folder;
  make_repository(folder);
  const std::string line = "cd " + shell_quoted(folder.path("")) + "\n" + script;
  const Outcome same = shell(line);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.errors;
  EXPECT_THAT(read_file(folder.path("zero3sim-junit.xml")), HasSubstr("failures=\"0\""));

  folder.write("requirements.txt", "torch\ndeepspeed==0.15.3\n");  // cures both
  const Outcome changed = shell(line);
  EXPECT_EQ(changed.exit_code, 1) << changed.out << changed.errors;
  EXPECT_THAT(changed.out, HasSubstr("inflight-at-reset"));
  EXPECT_THAT(read_file(folder.path("zero3sim-junit.xml")), HasSubstr("failures=\"2\""));

  const Outcome accepted = shell("cd " + shell_quoted(folder.path("")) +
                                 " && zero3sim regress zero3sim-baseline.json --deepspeed 0.15.3 --accept");
  EXPECT_EQ(accepted.exit_code, 0) << accepted.out << accepted.errors;
  EXPECT_EQ(shell(line).exit_code, 0);

  folder.write("requirements.txt", "torch\n");
  const Outcome unpinned = shell(line);
  EXPECT_EQ(unpinned.exit_code, 2);
  EXPECT_THAT(unpinned.out, HasSubstr("requirements.txt pins no deepspeed=="));
}

TEST(CiTemplates, GithubActions) { expect_job_tells_of_an_upgrade(github_script()); }
TEST(CiTemplates, Gitlab) { expect_job_tells_of_an_upgrade(gitlab_script()); }

// A change of what is pinned, and of the programs, starts them.
TEST(CiTemplates, StartWhereDependenciesChange) {
  const YAML::Node github = YAML::LoadFile("templates/ci/github-actions.yml");
  const YAML::Node gitlab = YAML::LoadFile("templates/ci/gitlab-ci.yml");
  for (const YAML::Node& paths :
       {github["on"]["pull_request"]["paths"], gitlab["zero3sim"]["rules"][0]["changes"]}) {
    std::vector<std::string> files = paths.as<std::vector<std::string>>();
    EXPECT_THAT(files, testing::Contains("requirements*.txt"));
    EXPECT_THAT(files, testing::Contains("zero3sim-baseline.json"));
  }
}

}  // namespace
}  // namespace zero3::cli_test
