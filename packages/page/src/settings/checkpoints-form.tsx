import { useRead } from '../parts/use-read.ts'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { ago } from '../words.ts'
import { Field, fieldsOf, type Save } from './fields.tsx'

/** How often the sandbox is saved while it runs, and the last time that it was. */
export function CheckpointsForm({ sandbox, info, onSave }: PartProps & { onSave: Save }) {
  const { value } = useRead(
    (signal) => sandbox.why({ signal }),
    `${sandbox.id} ${info.checkpointEveryMs}`,
    ({ sandboxId, type }) => sandboxId === sandbox.id && type === 'sandbox.ledger',
  )
  const submit = (event: SubmitEvent) =>
    onSave({ checkpointEveryMs: Math.round(Number(fieldsOf(event)('every')) * 1000) }, 'Checkpoints')
  return (
    <form class="panel" onSubmit={(event) => submit(event as unknown as SubmitEvent)}>
      <h2>Checkpoints</h2>
      <fieldset disabled={!mayRun()} class="fields">
        <Field
          label="Saved while it runs, every seconds (0: never)"
          name="every"
          value={info.checkpointEveryMs / 1000}
          isNumber
        />
        <button type="submit">Save checkpoints</button>
      </fieldset>
      <p class="note">{lastOf(value?.checkpoint)}</p>
    </form>
  )
}

function lastOf(checkpoint: Awaited<ReturnType<PartProps['sandbox']['why']>>['checkpoint']): string {
  const { lastAt, pauseMs, refused } = checkpoint ?? {}
  const last =
    lastAt === undefined
      ? 'No checkpoint yet.'
      : `Last checkpoint ${ago(lastAt)}${pauseMs === undefined ? '' : `, stopped for ${Math.round(pauseMs)} ms`}.`
  return refused === undefined ? last : `${last} Refused: ${refused}`
}
