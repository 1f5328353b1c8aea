#include "tests/tidy/source_text.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace zero3::tidy {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The length of the comment or literal that starts at `from`; 0 if none does. Sets whether it is a comment.
size_t token_length(std::string_view text, size_t from, bool& comment) {
  const std::string_view rest = text.substr(from);
  const auto through = [&](std::string_view end, size_t after) {
    const size_t place = rest.find(end, after);
    return place == std::string_view::npos ? rest.size() : place + end.size();
  };
  comment = rest.starts_with("//") || rest.starts_with("/*");
  if (rest.starts_with("//")) return std::min(rest.find('\n'), rest.size());
  if (rest.starts_with("/*")) return through("*/", 2);
  if (rest.starts_with("R\"")) {
    const std::string delimiter(rest.substr(2, rest.find('(') - 2));
    return through(")" + delimiter + "\"", 2);
  }
  const bool digit_separator = rest[0] == '\'' && from > 0 && is_word(text[from - 1]);
  if ((rest[0] != '"' && rest[0] != '\'') || digit_separator) return 0;
  size_t length = 1;
  while (length < rest.size() && rest[length] != rest[0]) length += rest[length] == '\\' ? 2 : 1;
  return std::min(length + 1, rest.size());
}

// The place of the brace that closes the one at `open`.
size_t closing_brace(std::string_view code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '{') ++depth;
    if (code[i] == '}' && --depth == 0) return i;
  }
  return code.size();
}

// Braces inside parentheses, or with no space before them, hold values: f(int a = {}), member_{1}.
bool opens_initialiser(const std::string& statement) {
  return std::ranges::count(statement, '(') > std::ranges::count(statement, ')') ||
         (!statement.empty() && std::isspace(static_cast<unsigned char>(statement.back())) == 0);
}

bool opens_scope(const std::string& statement) {
  static const std::regex kScope(R"(\b(namespace|class|struct|enum|union|extern)\b)");
  return statement.find('(') == std::string::npos && std::regex_search(statement, kScope);
}

// Outside its parentheses a function has no '=' but in an operator's name.
bool opens_function(std::string statement) {
  static const std::regex kInnermostParentheses(R"(\([^()]*\))");
  const bool has_parameters = statement.find('(') != std::string::npos;
  while (std::regex_search(statement, kInnermostParentheses)) {
    statement = std::regex_replace(statement, kInnermostParentheses, "");
  }
  const bool is_operator = statement.find("operator") != std::string::npos;
  return has_parameters && (is_operator || statement.find('=') == std::string::npos);
}

}  // namespace

std::string without_comments(std::string_view text, Literals literals) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    bool comment = false;
    const size_t length = token_length(text, i, comment);
    if (comment || literals == Literals::kBlank) {
      std::replace_if(
          code.begin() + static_cast<std::ptrdiff_t>(i),
          code.begin() + static_cast<std::ptrdiff_t>(i + length), [](char c) { return c != '\n'; }, ' ');
    }
    i += std::max<size_t>(length, 1);
  }
  return code;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<Function> functions_of(std::string_view text) {
  const std::string code = without_comments(text, Literals::kBlank);
  const auto line_of = [&](size_t place) {
    return 1 + static_cast<int>(
                   std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
  };
  std::vector<Function> functions;
  std::string statement;
  size_t statement_start = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    const bool ends_directive = c == '\n' && statement.starts_with('#');
    const bool ends_access_specifier = c == ':' && (statement == "public" || statement == "private");
    if (c == '{' && opens_initialiser(statement)) {
      i = closing_brace(code, i);
    } else if (c == '{' && !opens_scope(statement)) {
      const size_t close = closing_brace(code, i);
      if (opens_function(statement)) functions.push_back({line_of(statement_start), line_of(close)});
      i = close;
      statement.clear();
    } else if (c == '{' || c == '}' || c == ';' || ends_directive || ends_access_specifier) {
      statement.clear();
    } else if (!statement.empty() || std::isspace(static_cast<unsigned char>(c)) == 0) {
      if (statement.empty()) statement_start = i;
      statement += c;
    }
  }
  return functions;
}

}  // namespace zero3::tidy
