type WithoutUndefined<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }

/** The API refuses fields with the value undefined. */
export function omitUndefined<Fields extends object>(fields: Fields): WithoutUndefined<Fields> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as WithoutUndefined<Fields>
}

/** Returns undefined when no field is left. */
export function omitUndefinedOrNone<Fields extends object>(
  fields: Fields,
): WithoutUndefined<Fields> | undefined {
  const given = omitUndefined(fields)
  return Object.keys(given).length === 0 ? undefined : given
}
