# The interface target `zero3_options`: the language level, warnings and code generation that every target of the project shares.
add_library(zero3_options INTERFACE)
target_compile_features(zero3_options INTERFACE cxx_std_20)
target_include_directories(zero3_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(
  zero3_options
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wshadow
            -Wno-sign-conversion # clang counts it under -Wconversion, gcc does not
            -ffp-contract=off # the same bytes on machines with and without fused multiply-add
            # gcc 12 warns wrongly about "literal" + std::string (GCC bug 105651)
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
