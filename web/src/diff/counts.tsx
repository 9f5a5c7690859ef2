// The numbers of lines that a change adds and removes.

export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="counts">
      <span class="plus">+{added}</span> <span class="minus">−{removed}</span>
    </span>
  );
}
