import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { ago } from '../words.ts'
import { NeedsAwake } from './needs-awake.tsx'
import type { PartProps } from './sandbox-page.tsx'

/** How long a process has to end before the list is read again, whether it has ended or not. */
const END_MS = 2_000

export function ProcessesPart(props: PartProps) {
  return (
    <NeedsAwake info={props.info} what="Processes">
      <Processes {...props} />
    </NeedsAwake>
  )
}

function Processes({ sandbox }: PartProps) {
  const { value, problem, again } = useRead(
    (signal) => sandbox.commands.list({ signal }),
    sandbox,
    ({ sandboxId, type }) => sandboxId === sandbox.id && type === 'run.finished',
    { followsGaps: false },
  )
  const kill = (id: string, name: string) =>
    void attempt(name, async () => {
      const command = await sandbox.commands.connect(id)
      await command.kill(name)
      // A process may ignore SIGTERM: then the list shows that it still runs.
      await command.wait({ timeoutMs: END_MS }).catch(() => {})
      again()
    })
  return (
    <section aria-label="Processes">
      <div class="head">
        <button type="button" onClick={again}>
          Read again
        </button>
        {problem !== undefined && <span class="problem">{problem}</span>}
      </div>
      <Table
        label="Processes"
        head={['Pid', 'Command', 'User', 'State', 'Started', 'Actions']}
        empty="No process was started here, except by runs."
        rows={(value ?? []).map(({ processId, pid, command, user, state, exitCode, startedAt, pty }) => [
          pid,
          <code key="command">{command}</code>,
          user,
          state === 'exited' ? `exited ${exitCode ?? ''}` : pty ? 'running, terminal' : 'running',
          ago(startedAt),
          state === 'running' && mayRun() && (
            <span key="actions" class="row-actions">
              <button type="button" onClick={() => kill(processId, 'SIGTERM')}>
                End
              </button>
              <button type="button" class="danger" onClick={() => kill(processId, 'SIGKILL')}>
                Kill
              </button>
            </span>
          ),
        ])}
      />
    </section>
  )
}
