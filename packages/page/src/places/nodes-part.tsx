import { client } from '../client.ts'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { bytes } from '../words.ts'

/** The hosts of the cluster. Nothing for a server that is alone. */
export function NodesPart() {
  const { value = [] } = useRead((signal) => client.nodes.list({ signal }), 'nodes', isAboutLoad)
  if (value.length < 2) return null
  return (
    <div class="panel spaced">
      <h2>Hosts</h2>
      <Table
        label="Hosts of the cluster"
        head={['Host', 'State', 'Sandboxes', 'Free memory', 'Free disk', 'Load', 'Version', 'CPU', 'Address']}
        empty="There are no hosts."
        rows={value.map(
          ({ id, state, isSelf, isCordoned, drain, load, memory, disk, version, cpu, address }) => [
            <code key="id">{id}</code>,
            <span key="state" class={`build ${state === 'alive' ? 'ready' : 'failed'}`}>
              {[
                state,
                isCordoned && 'cordoned',
                drain && `${drain.moved} of ${drain.total} moved`,
                isSelf && 'this one',
              ]
                .filter(Boolean)
                .join(', ')}
            </span>,
            `${load.sandboxes} (${load.running} running)`,
            bytes(memory.freeBytes),
            bytes(disk.freeBytes),
            load.cpu.toFixed(2),
            version,
            cpu?.model ?? '',
            address,
          ],
        )}
      />
    </div>
  )
}

function isAboutLoad({ type }: { type: string }): boolean {
  return type === 'sandbox.ledger'
}
