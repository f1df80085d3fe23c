import type { SandboxInfo } from 'dormouse'
import { client } from '../client.ts'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { bytes } from '../words.ts'

/** What the sandbox mounts, and how full it is. */
export function VolumesPanel({ info }: { info: SandboxInfo }) {
  const { value } = useRead((signal) => client.volumes.list({ signal }).all(), info.id)
  return (
    <div class="panel">
      <h2>Volumes</h2>
      <Table
        label="Volumes of the sandbox"
        head={['Volume', 'Path', 'Access', 'Used']}
        empty="No volume is mounted: dormouse volume attach SANDBOX VOLUME:/PATH"
        rows={info.volumes.map(({ volume, path, readOnly }) => {
          const found = value?.find(({ name }) => name === volume)
          return [
            volume,
            <code key="path">{path}</code>,
            readOnly ? 'read only' : 'read and write',
            found === undefined ? '–' : `${bytes(found.bytes)} of ${bytes(found.sizeBytes)}`,
          ]
        })}
      />
    </div>
  )
}
