import { ms, table, verdict } from '../measure.mjs'

const HOP = { atMost: 0.5 }
const WAKE_RATIO = { atMost: 10 }
const MOVED_PERCENT = { atMost: 10 }
const UPLOAD_PERCENT = { atLeast: 50 }
const LIST = { atMost: 100 }

/** The tables of what `bench/cluster.mjs` has measured, with its goals. */
export function describeCluster({ depot, wakes, files, jobs, hop, list }, { hosts, sandboxes }) {
  return [
    describeWakes(wakes),
    describeFiles(files),
    describeDepot(depot),
    table(
      [`job of ${jobs.count} tasks of \`x * x\`, ${hosts} hosts, ${jobs.atOnce} at once`, 'tasks/s'],
      [
        ['a sandbox for each task', jobs.task.toFixed(1)],
        ['workers', jobs.worker.toFixed(1)],
      ],
    ),
    table(
      ['request', 'times', 'p50 ms', 'p99 ms', 'goal'],
      [...describeHop('view of a sandbox', hop.get), ...describeHop('`print(1)`', hop.run)],
    ),
    table(
      [`list of ${sandboxes} sandboxes`, 'times', 'p50 ms', 'p99 ms', 'goal'],
      Object.entries(list).map(([title, numbers]) => line(title, numbers, LIST)),
    ),
  ].join('\n\n')
}

function describeWakes({ megabytes, local, elsewhere, ratio, movedPart }) {
  const moved = movedPart * 100
  return table(
    [`sandbox with ${megabytes} MB of memory`, 'times', 'p50 ms', 'p99 ms', 'goal'],
    [
      line('stored wake on its own host', local),
      line('wake on another host, until the first result', elsewhere),
      ['compared with its own host', '', `${ratio.toFixed(1)} ×`, '', verdict(ratio, WAKE_RATIO, '×')],
      [
        ...['of its memory has moved by then, at most', '', percent(moved), ''],
        verdict(moved, MOVED_PERCENT, '%'),
      ],
    ],
  )
}

function describeFiles({ megabytes, count, local, elsewhere }) {
  return table(
    [`sandbox with ${megabytes} MB in ${count} files`, 'times', 'p50 ms', 'p99 ms'],
    [
      line('stored wake on its own host', local).slice(0, 4),
      line('wake on another host, until the first result', elsewhere).slice(0, 4),
    ],
  )
}

function describeDepot({ bare, upload, download, part }) {
  return table(
    ['depot in JetStream', 'MB/s', 'goal'],
    [
      ['object store alone', bare.toFixed(0), ''],
      ['upload', upload.toFixed(0), ''],
      ['upload compared with the store', percent(part * 100), verdict(part * 100, UPLOAD_PERCENT, '%')],
      ['download', download.toFixed(0), ''],
    ],
  )
}

function describeHop(title, { direct, passedOn, addedP50Ms }) {
  return [
    line(`${title}, to the host of the sandbox`, direct),
    line('… to another host', passedOn),
    ['… what the hop adds', '', addedP50Ms.toFixed(3), '', verdict(addedP50Ms, HOP, 'ms')],
  ]
}

function line(title, { times, p50, p99 }, goal) {
  return [title, times, ms(p50), ms(p99), verdict(p50, goal, 'ms')]
}

function percent(value) {
  return `${value.toFixed(1)} %`
}
