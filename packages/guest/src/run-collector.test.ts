import { RUN_OUTPUT_MAX_BYTES } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { RunCollector } from './run-collector.ts'

describe('RunCollector', () => {
  test('keeps short output unchanged', () => {
    const collector = new RunCollector('run-1')
    collector.add({ seq: 0, type: 'stdout', data: 'a' })
    collector.add({ seq: 1, type: 'stderr', data: 'b' })
    collector.add({ seq: 2, type: 'stdout', data: 'c' })
    collector.add({ seq: 3, type: 'exit', exitCode: 3, durationMs: 1 })
    expect(collector.result()).toEqual({
      runId: 'run-1',
      stdout: 'ac',
      stderr: 'b',
      exitCode: 3,
      results: [],
      durationMs: 1,
    })
  })

  test('keeps the beginning and the end of long output, and counts the rest', () => {
    const collector = new RunCollector('run-1')
    const piece = 'x'.repeat(65_536)
    collector.add({ seq: 0, type: 'stdout', data: 'BEGIN' })
    for (let i = 0; i < 200; i++) collector.add({ seq: i + 1, type: 'stdout', data: piece })
    collector.add({ seq: 201, type: 'stdout', data: 'END' })
    const { stdout, truncated } = collector.result()
    expect(stdout.startsWith('BEGIN')).toBe(true)
    expect(stdout.endsWith('END')).toBe(true)
    const total = 200 * piece.length + 8
    expect(truncated).toEqual({ stdoutBytes: total - RUN_OUTPUT_MAX_BYTES, stderrBytes: 0, resultBytes: 0 })
    expect(stdout).toContain(`${truncated?.stdoutBytes} bytes left out`)
  })

  test('marks the place where its journal dropped events', () => {
    const collector = new RunCollector('run-1')
    collector.add({ seq: 0, type: 'stdout', data: 'BEGIN' })
    collector.add({ seq: 9, type: 'truncated', events: 9, bytes: 900 })
    collector.add({ seq: 10, type: 'stdout', data: 'END' })
    expect(collector.result().stdout).toBe('BEGIN\n… 900 bytes left out …\nEND')
  })
})
