import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  burrowLimitsSchema,
  canMove,
  DormouseError,
  ERRORS,
  isBurrowId,
  isSandboxId,
  isSnapshotId,
  isVolumeId,
  newBurrowId,
  newSandboxId,
  newSnapshotId,
  newVolumeId,
  parseInput,
} from './index.ts'
import { NEXT_STATES } from './sandbox-state.ts'

describe('ids', () => {
  test('are recognised by kind, and no other text is', () => {
    expect(isSandboxId(newSandboxId())).toBe(true)
    expect(isBurrowId(newBurrowId())).toBe(true)
    expect(isSnapshotId(newSnapshotId())).toBe(true)
    expect(isVolumeId(newVolumeId())).toBe(true)
    expect(isSandboxId(newBurrowId())).toBe(false)
    for (const bad of [
      '',
      'sb-',
      'sb-../../../../etcp',
      `${newSandboxId()}x`,
      newSandboxId().toUpperCase(),
      'sb-0oooooooooooooooo',
    ]) {
      expect(isSandboxId(bad), bad).toBe(false)
    }
  })

  test('do not repeat and are DNS labels', () => {
    const ids = Array.from({ length: 1000 }, newSandboxId)
    expect(new Set(ids).size).toBe(1000)
    for (const id of ids) expect(id).toMatch(/^[a-z][a-z0-9-]{1,61}[a-z0-9]$/)
  })
})

describe('errors', () => {
  test('every code has a status, says whether to retry, and what to do', () => {
    for (const [code, { status, hint }] of Object.entries(ERRORS)) {
      expect(status, code).toBeGreaterThanOrEqual(400)
      expect(hint, code).toMatch(/\.$/)
    }
  })

  test('an error takes its status and hint from the registry and keeps its cause', () => {
    const cause = new Error('inner')
    const error = new DormouseError('no_space', 'full', { cause })
    expect(error).toMatchObject({ status: 507, retry: true, hint: ERRORS.no_space.hint, cause })
  })
})

/** More than can be written, not more than can be read. */
const bottomless = () => JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`)

describe('parseInput', () => {
  const schema = z.strictObject({ limits: burrowLimitsSchema.optional(), name: z.string().optional() })

  test.each<[string, unknown, string, string]>([
    ['a wrong type', { name: 5 }, 'name', 'saw 5'],
    ['an unknown field', { colour: 'red' }, 'colour', 'saw "red"'],
    ['a nested field', { limits: { pids: 1 } }, 'limits.pids', 'saw 1'],
    ['no object at all', 'text', 'thing', 'saw "text"'],
    ['a long value', { name: { x: 'y'.repeat(500) } }, 'name', '…'],
    ['a bottomless value', { name: bottomless() }, 'name', 'saw a value that is nested too deeply'],
  ])('names the field and shows the value for %s', (_what, value, field, seen) => {
    const parse = () => parseInput(schema, value, 'thing')
    expect(parse).toThrow(expect.objectContaining({ code: 'invalid_argument', details: { field } }))
    expect(parse).toThrow(seen)
  })

  test('fills in defaults', () => {
    expect(parseInput(burrowLimitsSchema, {}, 'limits')).toEqual({ memoryBytes: 2 ** 30, cpus: 1, pids: 512 })
  })
})

describe('states', () => {
  test('nothing leaves deleting, and every state can be reached and deleted', () => {
    const states = Object.keys(NEXT_STATES) as (keyof typeof NEXT_STATES)[]
    for (const from of states) {
      expect(canMove({ from: 'deleting', to: from })).toBe(false)
      if (from === 'deleting') continue
      const reachesEnd = canMove({ from, to: 'deleting' })
      expect(reachesEnd, from).toBe(true)
    }
    expect(canMove({ from: 'standby', to: 'running' })).toBe(false)
    expect(canMove({ from: 'resuming', to: 'standby' })).toBe(true)
  })
})
