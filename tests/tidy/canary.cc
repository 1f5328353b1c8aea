// Breaks the rules of .clang-tidy on purpose: scripts/checks/clang-tidy fails when it passes.
int* BadlyNamed = 0;
