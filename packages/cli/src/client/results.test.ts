import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ResultSaver } from './result-saver.ts'
import { terminalImage } from './terminal-image.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-results-'))
afterAll(() => rmSync(directory, { recursive: true }))
const png = Buffer.from('the bytes').toString('base64')

test('results of the type of the file are saved, numbered from the second on', () => {
  const saver = new ResultSaver(join(directory, 'plot.png'))
  saver.save({ 'text/plain': '2' })
  expect(saver.summary()).toContain('Nothing was saved')
  saver.save({ 'text/plain': '<Figure>', 'image/png': png, 'text/html': '<p>' })
  saver.save({ 'image/png': png })
  expect(saver.saved).toEqual([join(directory, 'plot.png'), join(directory, 'plot-2.png')])
  expect(readFileSync(join(directory, 'plot.png'), 'utf8')).toBe('the bytes')
  const html = new ResultSaver(join(directory, 'table.html'))
  html.save({ 'text/html': '<p>', 'image/png': png })
  expect(readFileSync(join(directory, 'table.html'), 'utf8')).toBe('<p>')
})

test('a directory gets every plot; a name without a known type and a missing directory are refused', () => {
  const saver = new ResultSaver(join(directory, 'made/'))
  saver.save({ 'text/html': '<p>' })
  saver.save({ 'image/svg+xml': '<svg/>' })
  expect(saver.saved).toEqual([join(directory, 'made/plot-1.svg')])
  expect(() => new ResultSaver(join(directory, 'plot'))).toThrow('cannot tell the type')
  expect(() => new ResultSaver(join(directory, 'absent/plot.png'))).toThrow('there is no directory')
  expect(existsSync(join(directory, 'absent'))).toBe(false)
})

test('a plot is shown only in a terminal that says it can', () => {
  expect(terminalImage(png, { TERM: 'xterm-256color' })).toBeUndefined()
  expect(terminalImage(png, { TERM: 'xterm-kitty', TMUX: '1' })).toBeUndefined()
  expect(terminalImage(png, { TERM: 'xterm-kitty' })).toBe(`\x1b_Ga=T,f=100,m=0;${png}\x1b\\`)
  expect(terminalImage(png, { TERM_PROGRAM: 'iTerm.app' })).toContain(`inline=1;size=9:${png}`)
  const long = terminalImage('A'.repeat(8192), { TERM: 'xterm-kitty' }) ?? ''
  expect(long).toContain('\x1b_Ga=T,f=100,m=1;')
  expect(long.endsWith('\x1b\\')).toBe(true)
  expect(terminalImage(`${png}\x07\x1b[2J`, { TERM: 'xterm-kitty' })).not.toContain('\x1b[2J')
})
