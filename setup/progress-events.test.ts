import { expect, it } from 'vitest'
import { ProgressEvents } from './progress-events.mjs'

function record() {
  let text = ''
  const events = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  return { events, output: { write: (more: string) => (text += more) } }
}

it('ProgressEvents writes one object per line, each with the id of its step', () => {
  const { events, output } = record()
  const progress = new ProgressEvents(output)
  progress.inPlace({ id: 'one', title: 'One' })
  progress.start({ id: 'two', title: 'Two' })
  progress.update({ percent: 50, doing: 'half' })
  // More frequent updates are dropped.
  for (let line = 0; line < 1000; line += 1) progress.update({ doing: `line ${line}` })
  progress.note('Stopping...')
  progress.finish('stopped')
  progress.finish('failed')
  progress.clear()
  expect(events()).toEqual([
    { type: 'step', id: 'one', title: 'One', state: 'in_place' },
    { type: 'step', id: 'two', title: 'Two', state: 'started' },
    { type: 'progress', id: 'two', percent: 50, doing: 'half' },
    { type: 'note', text: 'Stopping...' },
    { type: 'step', id: 'two', state: 'stopped', durationMs: expect.any(Number) },
  ])
})
