import { describe, expect, it } from 'vitest'
import { checkQuota } from './quotas.ts'

const GIB = 1024 ** 3
const used = { sandboxes: 9, running: 2, memoryBytes: 3 * GIB, diskBytes: 10 * GIB }

describe('checkQuota', () => {
  it('allows everything without quotas', () => {
    checkQuota({}, used, { sandboxes: 1e6, running: 1e6, memoryBytes: 1e15, diskBytes: 1e15 })
  })

  it('allows up to the limit and refuses one more', () => {
    checkQuota({ sandboxes: 10 }, used, { sandboxes: 1 })
    expect(() => checkQuota({ sandboxes: 10 }, used, { sandboxes: 2 })).toThrow(
      expect.objectContaining({
        code: 'limit_reached',
        message: 'This key may have 10 sandboxes; 9 are in use and the request asks for 2 more',
        hint: expect.stringContaining('--max-sandboxes'),
        details: { quota: 'sandboxes', limit: 10, used: 9, wanted: 2 },
      }),
    )
  })

  it.each([
    ['running', { running: 2 }, { running: 1 }, '--max-running'],
    ['memoryBytes', { memoryBytes: 4 * GIB }, { memoryBytes: GIB + 1 }, '--max-memory'],
    ['diskBytes', { diskBytes: 10 * GIB }, { diskBytes: 1 }, '--max-disk'],
  ])('names the quota %s and the setting that raises it', (quota, quotas, wanted, flag) => {
    expect(() => checkQuota(quotas, used, wanted)).toThrow(
      expect.objectContaining({
        details: expect.objectContaining({ quota }),
        hint: expect.stringContaining(flag),
      }),
    )
  })

  it('says bytes in units that people read', () => {
    expect(() => checkQuota({ memoryBytes: 4 * GIB }, used, { memoryBytes: 1.5 * GIB })).toThrow(
      'This key may have 4 GiB of memory for running sandboxes; 3 GiB are in use and the request asks for 1.5 GiB more',
    )
  })

  it('does not refuse what was not asked for, though another quota is passed already', () => {
    checkQuota({ diskBytes: GIB, running: 3 }, used, { running: 1, diskBytes: 0 })
  })

  it('of 0 allows nothing', () => {
    const none = { sandboxes: 0, running: 0, memoryBytes: 0, diskBytes: 0 }
    expect(() => checkQuota({ sandboxes: 0 }, none, { sandboxes: 1 })).toThrow(
      expect.objectContaining({ code: 'limit_reached' }),
    )
  })
})
