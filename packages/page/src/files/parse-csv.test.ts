import { expect, test } from 'vitest'
import { parseCsv } from './parse-csv.ts'

test('quotes, doubled quotes, separators and line breaks in quotes', () => {
  expect(parseCsv('a,b\n"1,5","say ""hi""\nthere"\n')).toEqual([
    ['a', 'b'],
    ['1,5', 'say "hi"\nthere'],
  ])
})

test('empty fields, Windows line ends and no line end', () => {
  expect(parseCsv('a,,c\r\n,,\r\nx')).toEqual([['a', '', 'c'], ['', '', ''], ['x']])
  expect(parseCsv('')).toEqual([])
})

test('semicolons and tabs', () => {
  expect(parseCsv('a;b;c,d\n1;2;3')).toEqual([
    ['a', 'b', 'c,d'],
    ['1', '2', '3'],
  ])
  expect(parseCsv('a\tb\n1\t2')).toEqual([
    ['a', 'b'],
    ['1', '2'],
  ])
})
