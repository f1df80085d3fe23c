import { useState } from 'preact/hooks'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { Link } from '../router.tsx'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { bytes, clock } from '../words.ts'
import { type FamilyNode, layOut, type Placed } from './lay-out.ts'

const COLUMN_PX = 250
const ROW_PX = 62
const BOX_PX = { width: 210, height: 46 }

/** Forks and snapshots of the family as a graph; two can be compared. Wakes nothing. */
export function FamilyPart({ sandbox }: PartProps) {
  const { value, problem } = useRead(
    (signal) => sandbox.tree({ signal }),
    sandbox,
    ({ type }) => type === 'sandbox.ledger' || type === 'sandbox.deleted',
  )
  const [picked, setPicked] = useState<readonly string[]>([])
  if (problem !== undefined) return <p class="problem">{problem}</p>
  const placed = layOut(value?.nodes ?? [])
  const width = Math.max(1, ...placed.map(({ x }) => x + 1)) * COLUMN_PX
  const height = Math.max(1, ...placed.map(({ y }) => y + 1)) * ROW_PX
  const pick = (id: string) =>
    setPicked((before) =>
      before.includes(id) ? before.filter((one) => one !== id) : [...before, id].slice(-2),
    )
  const chosen = picked.flatMap((id) => placed.find(({ node }) => node.id === id)?.node ?? [])
  return (
    <section aria-label="Family">
      <p class="note">Select two to compare them.</p>
      <div class="family" role="group" aria-label="Family tree">
        <div style={{ width: `${width}px`, height: `${height}px` }}>
          <svg width={width} height={height} aria-hidden="true">
            {placed.map((one) => (
              <Edge key={one.node.id} to={one} />
            ))}
          </svg>
          {placed.map((one) => (
            <Box
              key={one.node.id}
              place={one}
              isSelf={one.node.id === sandbox.id}
              isPicked={picked.includes(one.node.id)}
              onPick={() => pick(one.node.id)}
            />
          ))}
        </div>
      </div>
      {chosen.length === 2 && <Comparison nodes={chosen} />}
      {value?.more === true && <p class="note">The family is larger than this.</p>}
    </section>
  )
}

function Edge({ to }: { to: Placed }) {
  if (to.parent === undefined) return null
  const [x1, y1] = [to.parent.x * COLUMN_PX + BOX_PX.width, to.parent.y * ROW_PX + BOX_PX.height / 2]
  const [x2, y2] = [to.x * COLUMN_PX, to.y * ROW_PX + BOX_PX.height / 2]
  const middle = (x1 + x2) / 2
  return <path d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} />
}

interface BoxProps {
  readonly place: Placed
  readonly isSelf: boolean
  readonly isPicked: boolean
  readonly onPick: () => void
}

function Box({ place: { node, x, y }, isSelf, isPicked, onPick }: BoxProps) {
  const look = lookOf(node)
  return (
    <button
      type="button"
      class={['node', look, isSelf && 'self'].filter(Boolean).join(' ')}
      aria-pressed={isPicked}
      style={{
        left: `${x * COLUMN_PX}px`,
        top: `${y * ROW_PX}px`,
        width: `${BOX_PX.width}px`,
        height: `${BOX_PX.height}px`,
      }}
      onClick={onPick}
    >
      <strong>{node.name ?? node.id}</strong>
      <small>{memoryWords(node) ?? look}</small>
    </button>
  )
}

function lookOf(node: FamilyNode): string {
  if (node.kind === 'snapshot') return 'snapshot'
  if (node.state === 'standby') return node.tier ?? 'stored'
  return node.state === 'deleted' ? 'deleted' : 'running'
}

function memoryWords(node: FamilyNode): string | undefined {
  if (node.kind === 'snapshot') return `snapshot, ${bytes(node.memoryBytes)}`
  const { memory } = node
  return memory && `${bytes(memory.privateBytes)} own, ${bytes(memory.sharedBytes)} shared`
}

function Comparison({ nodes }: { nodes: readonly FamilyNode[] }) {
  const row = (name: string, of: (node: FamilyNode) => preact.ComponentChildren) => [name, ...nodes.map(of)]
  const size = (node: FamilyNode, which: 'privateBytes' | 'sharedBytes') =>
    node.kind === 'snapshot' ? '–' : bytes(node.memory?.[which])
  return (
    <Table
      label="Comparison"
      head={['', ...nodes.map(({ name, id }) => name ?? id)]}
      empty=""
      rows={[
        row('Kind', ({ kind }) => kind),
        row('Id', ({ kind, id }) => (kind === 'sandbox' ? <Link to={`/sandboxes/${id}`}>{id}</Link> : id)),
        row('State', lookOf),
        row('Made', ({ createdAt }) => (createdAt === undefined ? '–' : clock(createdAt))),
        row('Memory of its own', (node) =>
          node.kind === 'snapshot' ? bytes(node.memoryBytes) : size(node, 'privateBytes'),
        ),
        row('Memory shared', (node) => size(node, 'sharedBytes')),
      ]}
    />
  )
}
