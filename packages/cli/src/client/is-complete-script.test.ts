import { describe, expect, test } from 'vitest'
import { isCompleteScript } from './is-complete-script.ts'
import type { Language } from './language.ts'

describe('isCompleteScript', () => {
  test.each<[Language, string, boolean]>([
    ['javascript', '1 + 1', true],
    ['javascript', 'function f() {', false],
    ['javascript', 'function f() {\n  return "}"', false],
    ['javascript', 'function f() {\n  return "}"\n}', true],
    ['javascript', 'const t = `a', false],
    ['javascript', 'const t = `a\n{`', true],
    ['javascript', "const open = 'a", true],
    ['javascript', '// {', true],
    ['javascript', '/* {', false],
    ['typescript', 'interface A {\n  x: number', false],
    ['bash', 'echo hi', true],
    ['bash', "echo 'a", false],
    ['bash', "echo 'a\\'", true],
    ['bash', 'for i in 1 2; do', false],
    ['bash', 'for i in 1 2; do echo $i; done', true],
    ['bash', 'if true; then', false],
    ['bash', 'case $x in\n  a) echo a ;;', false],
    ['bash', 'case $x in\n  a) echo a ;;\nesac', true],
    ['bash', 'f() {', false],
    ['bash', 'f() { echo x; }', true],
    ['bash', 'echo a |', false],
    ['bash', 'echo a \\', false],
    ['bash', 'echo a#b {x}', true],
    ['bash', 'echo a # {', true],
    ['r', 'f <- function(x) {', false],
    ['r', 'c(1, 2)', true],
  ])('%s %j: %j', (language, code, expected) => {
    expect(isCompleteScript(code, language)).toBe(expected)
  })
})
