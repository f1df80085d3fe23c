import { setTimeout as sleep } from 'node:timers/promises'
import type { Dice } from '../../fuzz/dice.ts'
import type { ServerProcess } from '../../server/server-process.ts'
import type { Known } from './known.ts'
import type { Model } from './model.ts'

/** Fewer than there are sandboxes and children: some calls want the name of another one. */
export const NAMES = ['ada', 'bo', 'cleo']
const KEPT_MAX = 2
const CHILDREN_MAX = 2
const INPUT_MAX = 1_000

type Operation = (model: Model, host: ServerProcess, known: Known, dice: Dice) => Promise<unknown>

/** What may happen to a sandbox, and how often compared with the others. */
const OPERATIONS: readonly [share: number, play: Operation][] = [
  [44, (model, host, known) => model.increment(host, known)],
  [16, (model, host, known) => model.sleepDurably(host, known)],
  [9, (model, host, known, dice) => model.move(host, known, dice.one(model.hosts))],
  [7, (model, host, known, dice) => model.rename(host, known, dice.one(NAMES))],
  [6, (model, host, known) => model.requireNamed(host, known)],
  [4, fork],
  [
    4,
    async (model, host, known) => {
      if (known.kept.length < KEPT_MAX) await model.keep(host, known)
    },
  ],
  [
    3,
    async (model, _host, known, dice) => {
      if (known.kept.length > 0) await model.lookAtKept(dice.one(model.hosts), known, dice.one(known.kept))
    },
  ],
  [
    4,
    async (model, host, known, dice) => {
      if (known.kept.length > 0) await model.rollback(host, known, dice.one(known.kept))
    },
  ],
  [3, beginOrLookAtJob],
  [2, (model, host, known) => model.delete(host, known)],
]
const SHARES = OPERATIONS.reduce((sum, [share]) => sum + share, 0)

/** Plays one random call. */
export async function play(model: Model, dice: Dice, known: Known): Promise<void> {
  const { server } = dice.one(model.hosts)
  if (known.isDeleted) await model.requireGone(server, known)
  else await choose(dice)(model, server, known, dice)
  if (!known.isDeleted) await model.requireOneOwner(known)
  await sleep(50)
}

function choose(dice: Dice): Operation {
  let left = dice.number(SHARES)
  for (const [share, operation] of OPERATIONS) {
    left -= share
    if (left < 0) return operation
  }
  throw new Error('the dice show more than there is')
}

/** A child lives for some calls; the oldest of those that are left is deleted. */
async function fork(model: Model, host: ServerProcess, known: Known, dice: Dice): Promise<void> {
  const child = await model.fork(host, known)
  if (child === undefined) return
  for (let calls = dice.number(4); calls >= 0; calls -= 1) {
    const { server } = dice.one(model.hosts)
    if (dice.chance(30)) await model.sleepDurably(server, child)
    else await model.increment(server, child)
    await model.requireOneOwner(child)
  }
  const alive = model.children.filter(({ mayBeDeleted }) => !mayBeDeleted)
  if (alive.length > CHILDREN_MAX) await model.delete(host, alive[0] as Known)
  await model.removeOrphans(host)
}

async function beginOrLookAtJob(
  { jobs }: Model,
  host: ServerProcess,
  _known: Known,
  dice: Dice,
): Promise<void> {
  if (jobs.all.length > 0 && dice.chance(50)) return await jobs.look(host, dice.one(jobs.all))
  const inputs = Array.from({ length: 1 + dice.number(3) }, () => dice.number(INPUT_MAX))
  await jobs.begin(host, inputs)
}
