import { DormouseError } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { explainRestoreFailure, findBrokenConnections } from './explain-criu.ts'

const PREFIX = 'Error (soccr/soccr.c:820): '

test.each([
  [
    'received',
    `${PREFIX}Can't restore recv queue data (-1), want (7864320-1024:524288:1024): Cannot allocate`,
  ],
  ['sent', `${PREFIX}Can't restore send queue data (-1), want (8388000-608:608:608): Resource unavailable`],
  ['not sent', `${PREFIX}Can't restore not-sent send queue data (-1), want (0-677:8388608:677): Broken pipe`],
])('the queue that CRIU could not restore is known by its length: %s', (_name, line) => {
  const [, from = 0, left = 0] = /want \((\d+)-\d+:(\d+)/.exec(line) ?? []
  expect(
    findBrokenConnections(explainRestoreFailure(`${line}\nError (criu/cr-restore.c:1): FAILED`)),
  ).toEqual({
    queueBytes: Number(from) + Number(left),
  })
})

test('of other failures of connections it is not known which one it was', () => {
  const error = explainRestoreFailure(`${PREFIX}Unable to set window parameters: Invalid argument`)
  expect(findBrokenConnections(error)).toEqual({ queueBytes: undefined })
})

test('other failures have nothing to do with connections', () => {
  const other = explainRestoreFailure('Error (criu/files-reg.c:1): Can not open file')
  expect(findBrokenConnections(other)).toBeUndefined()
  expect(findBrokenConnections(new DormouseError('no_space', 'The disk is full.'))).toBeUndefined()
  expect(findBrokenConnections(new Error('soccr/'))).toBeUndefined()
})
