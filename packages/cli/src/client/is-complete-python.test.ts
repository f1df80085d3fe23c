import { expect, test } from 'vitest'
import { isCompletePython } from './is-complete-python.ts'

test.each([
  'x = 1',
  'print("a:")',
  "s = 'it''s'",
  'f(1, [2, {3: 4}])',
  'x = (1,\n2)',
  '"""doc"""',
  '"""a\nb"""',
  'lambda: 0',
  'if x: y = 1',
  'd = {"a": 1}  # a comment with ( and "',
  'for i in x:\n    print(i)\n',
  '@cached\ndef f():\n    return 1\n',
  'x = 1 + \\\n2',
  "x = 'unterminated",
  'x = )',
  '%%bash\nls\n',
  "x = r'\\\\'",
])('complete: %j', (code) => {
  expect(isCompletePython(code)).toBe(true)
})

test.each([
  'f(1,',
  'x = [\n1,',
  'x = """a\nb',
  'for i in x:',
  'if x:  # why',
  'for i in x:\n    print(i)',
  '@cached',
  'x = 1 + \\',
  'def f(a,\n      b):',
  '%%bash',
  '%%bash\nls',
])('incomplete: %j', (code) => {
  expect(isCompletePython(code)).toBe(false)
})
