"""Digests of the sources of the object mapper's functions, as far as turbocql knows them.

A release of the driver may change a source. Read the new source before you add its digest, which
`status()` shows. Comments, docstrings and layout do not change a digest.

To make a function's digest, its source is parsed, which takes a while. The digest of a whole file
needs no parsing, so the digests of the files of known releases are here too.
"""

from __future__ import annotations

__all__ = ["FILE_DIGESTS", "SOURCE_DIGESTS"]

SOURCE_DIGESTS: dict[str, tuple[str, ...]] = {
    "columns.BaseValueManager.__init__": ("ff0c0f932c19",),
    "columns.BaseValueManager.deleted": ("5dbda76f8110",),
    "columns.BaseValueManager.changed": ("702ce7e2624b",),
    "columns.BaseValueManager.reset_previous_value": ("ee50cac680e2",),
    "columns.BaseValueManager.getval": ("a87bed780506",),
    "columns.Column.validate": ("69c5838f369b",),
    "columns.Column.to_python": ("e9747fb83998",),
    "columns.Column.to_database": ("d409809f4d97",),
    "columns.Column.has_default": ("086f9a80dec9",),
    "columns.Column.get_default": ("b9f3f5344e68",),
    "columns.Column.db_field_name": ("0142d7d9bd10",),
    "columns.Column._val_is_null": ("4c6e8a0f0f85",),
    "columns.Text.validate": ("43746c66a541",),
    "columns.Integer.validate": ("ecd3b6857db2",),
    "columns.Integer.to_python": ("c396e9ad6482",),
    "columns.Integer.to_database": ("4be9de36bd0e",),
    "columns.VarInt.validate": ("c75749c94b66",),
    "columns.VarInt.to_python": ("c396e9ad6482",),
    "columns.VarInt.to_database": ("4be9de36bd0e",),
    "columns.DateTime.to_python": ("0c6817aaa1c7",),
    "columns.DateTime.to_database": ("d167de01f3c6",),
    "columns.UUID.validate": ("40f1c8d19c2b",),
    "columns.UUID.to_python": ("c396e9ad6482",),
    "columns.UUID.to_database": ("4be9de36bd0e",),
    "columns.Boolean.validate": ("6ef2722f2375",),
    "columns.Boolean.to_python": ("c396e9ad6482",),
    "columns.BaseFloat.validate": ("4d073932caef",),
    "columns.BaseFloat.to_python": ("c396e9ad6482",),
    "columns.BaseFloat.to_database": ("4be9de36bd0e",),
    "columns.Decimal.validate": ("18c3a964340e",),
    "columns.Decimal.to_python": ("c396e9ad6482",),
    "columns.Decimal.to_database": ("4be9de36bd0e",),
    "columns.BaseCollectionColumn.validate": ("4f594ddb6d12",),
    "columns.BaseCollectionColumn._val_is_null": ("e7286ae40609",),
    "columns.Set.validate": ("4cfe0da0a175",),
    "columns.Set.to_python": ("e2806566469c",),
    "columns.Set.to_database": ("9035ffbb7a98",),
    "columns.List.validate": ("ad2afea9baaa",),
    "columns.List.to_python": ("5f0b218242cd",),
    "columns.List.to_database": ("7264b4cf3637",),
    "columns.Map.validate": ("6d2d006cb2ca",),
    "columns.Map.to_python": ("bac503e4bb10",),
    "columns.Map.to_database": ("66bf0917d1a9",),
    "models.BaseModel.__init__": ("216b68170295",),
    "models.BaseModel._set_persisted": ("ac64754109af",),
    "models.BaseModel._can_update": ("3834fbfb258e",),
    "models.BaseModel.validate": ("da8b546a2414",),
    "models.BaseModel._set_column_value": ("9473a2bce997",),
    "models.ColumnDescriptor.__get__": ("fd707f9e9d05",),
    "query.DMLQuery.save": ("54fe88eecfd6", "2eb9987018b1"),
    "query.DMLQuery._delete_null_columns": ("83a3fb017163",),
    "query.AbstractQuerySet.__deepcopy__": ("97829cf58cc9",),
    "statements.BaseClause.__init__": ("41baa440ab7c",),
    "statements.BaseClause.set_context_id": ("20942f2a960c",),
    "statements.BaseClause.get_context_size": ("4b7342039485",),
    "statements.BaseClause.update_context": ("c3d84b47abc7",),
    "statements.AssignmentClause.insert_tuple": ("0e6cc01fec0b",),
    "statements.MapDeleteClause.__init__": ("429900aaba20",),
    "statements.MapDeleteClause._analyze": ("d5efc66a8015",),
    "statements.MapDeleteClause.get_context_size": ("36acdb28c74b",),
    "statements.BaseCQLStatement.get_context": ("b25e29b01b8a",),
    "statements.BaseCQLStatement.partition_key_values": ("577b6d17cb7b",),
    "statements.BaseCQLStatement._update_part_key_values": ("873cc5d6e630",),
    "statements.AssignmentStatement.get_context": ("858cf348782e",),
    "statements.AssignmentStatement.partition_key_values": ("7aec43e6d09f",),
    "statements.AssignmentStatement.add_assignment": ("262461f7dcf1",),
    "statements.AssignmentStatement._add_assignment_clause": ("84ece4b9311b",),
    "statements.AssignmentStatement.is_empty": ("f1c20716b920",),
    "statements.InsertStatement.__unicode__": ("805458138870",),
    "connection.execute": ("e88c1e3a085c",),
    "functions.get_total_seconds": ("1726ef05d5a1",),
    "models.BaseModel.create": ("5d965b322e99",),
    "models.BaseModel.column_family_name": ("af2afe546037",),
    "models.BaseModel.__len__": ("2d49407808ce",),
    "models.BaseModel._inst_batch": ("0e2f02b6560e",),
    "models.hybrid_classmethod.__get__": ("6dd4d109a771",),
    "models.TTLDescriptor.__get__": ("9d8d1b302ac3",),
    "models.TimestampDescriptor.__get__": ("e76a30656347",),
    "models.ConsistencyDescriptor.__get__": ("9381a44205db",),
    "models.IfNotExistsDescriptor.__get__": ("9bbf561cb122",),
    "models.IfExistsDescriptor.__get__": ("87d4c0083a6b",),
    "models.UsingDescriptor.__get__": ("b98b6263bd2e",),
    "query.AbstractQuerySet.create": ("31b9288a496a",),
    "statements.BaseCQLStatement.__init__": ("2f48c322e310",),
    "statements.AssignmentStatement.__init__": ("1a60fadbc075",),
    "statements.InsertStatement.__init__": ("92433537de07",),
}
"""Maps each function to the digests of its source in the drivers that turbocql is tested with."""

FILE_DIGESTS: dict[str, tuple[str, ...]] = {
    "columns": ("6fbbdf0770de", "8e7174985971", "44b76bfddfdf"),
    "models": ("4d39f85b041e", "805d969af6b6", "dbc564a94599"),
    "query": ("1d596007966b", "eedb5745d46a", "9e3611a1d472", "255a574fa737"),
    "statements": ("60c59a6e1096", "690578f9e7a6", "fb59c8fd07a5"),
    "connection": ("660b5bbf8dea", "86181fac220c", "e570d50c4f86", "57303ff1222c"),
    "functions": ("0c323ab52702", "e544bb2c4116"),
}
"""Maps each module to the digests of its file in known releases. The functions in such a file have
digests that are in `SOURCE_DIGESTS`.
"""
