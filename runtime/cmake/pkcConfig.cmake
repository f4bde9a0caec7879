# find_package(pkc): the runtime library as pkc::runtime, the compiler as pkc::pkc, and
#
#   pkc_add_kernel(TARGET FILE.pk [words of `pkc compile`: -D NAME=VALUE, -k KERNEL, ..])
#
# which adds a static library TARGET with the kernel: what links it may include TARGET.h. PKC_FLAGS are the flags of the C compiler
# for kernels besides its warnings: a program for other machines sets -march= there.

get_filename_component(PKC_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(PKC_FLAGS -O3 -march=native CACHE STRING "Flags of the C compiler for kernels")

if(NOT TARGET pkc::pkc)
  add_executable(pkc::pkc IMPORTED)
  set_target_properties(pkc::pkc PROPERTIES IMPORTED_LOCATION "${PKC_PREFIX}/bin/pkc")
endif()

if(NOT TARGET pkc::runtime)
  set(THREADS_PREFER_PTHREAD_FLAG ON)
  find_package(Threads REQUIRED)
  add_library(pkc::runtime SHARED IMPORTED)
  set_target_properties(pkc::runtime PROPERTIES
    IMPORTED_LOCATION "${PKC_PREFIX}/lib/libpkrt.so.0"
    IMPORTED_SONAME libpkrt.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${PKC_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
  add_library(pkc::runtime_static STATIC IMPORTED)
  set_target_properties(pkc::runtime_static PROPERTIES
    IMPORTED_LOCATION "${PKC_PREFIX}/lib/libpkrt.a"
    INTERFACE_INCLUDE_DIRECTORIES "${PKC_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
endif()

function(pkc_add_kernel target file)
  if(NOT file MATCHES "\\.pk$")
    message(FATAL_ERROR "pkc_add_kernel(${target} ${file}): the second argument is a .pk file")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT C IN_LIST languages)
    message(FATAL_ERROR "pkc_add_kernel(${target} ${file}): kernels are C; write enable_language(C) or project(.. LANGUAGES C)")
  endif()
  get_filename_component(source "${file}" ABSOLUTE)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.kernel")
  set(stem "${folder}/${target}")
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT "${stem}.c" "${stem}.h"
    COMMAND pkc::pkc compile "${source}" ${ARGN} -o "${stem}.c"
    DEPENDS "${source}" pkc::pkc
    COMMENT "pkc ${file}"
    VERBATIM)
  add_library(${target} STATIC "${stem}.c" "${stem}.h")
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE ${PKC_FLAGS} -ffp-contract=off)
  target_include_directories(${target} PUBLIC "${folder}")
  target_link_libraries(${target} PUBLIC pkc::runtime)
endfunction()
