import { describe, expect, test } from 'vitest'
import { type ChainLayer, chooseLayersToMerge } from './choose-layers-to-merge.ts'

const MB = 1024 ** 2
const layer = (change: Partial<ChainLayer> = {}): ChainLayer => ({
  sizeBytes: MB,
  known: 0,
  renames: 0,
  isShared: false,
  ...change,
})
const layers = (count: number, change?: Partial<ChainLayer>) =>
  Array.from({ length: count }, () => layer(change))
const choose = (chain: readonly ChainLayer[], canClone = false) => chooseLayersToMerge(chain, { canClone })

describe('which layers are merged', () => {
  test('none of a short chain', () => {
    expect(choose(layers(16))).toBeUndefined()
  })

  test('all of a longer one but the top layer', () => {
    expect(choose(layers(17))).toEqual({ from: 1, to: 17 })
  })

  test('not those with a file that a process has open', () => {
    expect(choose([...layers(6), layer({ known: 1 }), ...layers(10)])).toEqual({ from: 7, to: 17 })
  })

  test('not those of others, until the chain is long', () => {
    expect(choose([...layers(6), ...layers(20, { isShared: true })])).toEqual({ from: 1, to: 6 })
    expect(choose([...layers(6), ...layers(60, { isShared: true })])).toEqual({ from: 1, to: 66 })
  })

  test('not a large one, unless copies cost nothing or the chain is long', () => {
    const chain = [...layers(10), layer({ sizeBytes: 100 * MB }), ...layers(8)]
    expect(choose(chain)).toEqual({ from: 1, to: 10 })
    expect(choose(chain, true)).toEqual({ from: 1, to: 19 })
    expect(choose([...chain, ...layers(60)])).toEqual({ from: 1, to: 79 })
  })

  test('not more at once than a few large ones weigh', () => {
    const { from, to } = choose(layers(20, { sizeBytes: 60 * MB })) ?? { from: 0, to: 0 }
    expect(to - from).toBe(4)
  })

  test('not a handful between open files, until the chain is long', () => {
    const some = [...layers(2), layer({ known: 1 })]
    const chain = (times: number) => [layer(), ...Array.from({ length: times }, () => some).flat()]
    expect(choose(chain(10))).toBeUndefined()
    expect(choose(chain(15))).toEqual({ from: 1, to: 3 })
  })

  test('everything but the top layer, when the sandbox could soon not wake at all', () => {
    expect(choose(layers(257, { known: 1, isShared: true, sizeBytes: 1000 * MB }))).toEqual({
      from: 1,
      to: 257,
    })
  })
})
